"""What the job must have computed, from the CSV file alone, with DuckDB: nothing of Spark and nothing of ours.

The job sees every departure of the days that were fed, and the long delays of each day once more in the next day's
file. So does the truth.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import duckdb

from tests.system.harness.flights import LONG_DELAY_MINUTES


HourKey = tuple[str, str, str]
DelayKey = tuple[str, int, str, str, int, int, int, int]

# Columns of an hourly row after its key (hour, origin, carrier).
HOURLY_VALUES = (
    "airline",
    "flights",
    "cancelled",
    "mean_departure_delay",
    "worst_departure_delay",
    "total_arrival_delay",
)

DEPARTURES = """
    CREATE TABLE departures AS
    SELECT *, date_diff('day', DATE '2013-01-01', make_date(year, month, day)) AS day_number
    FROM read_csv(?, header = true, nullstr = 'NA', auto_detect = false, columns = {
        'year': 'INT', 'month': 'INT', 'day': 'INT', 'dep_time': 'INT', 'sched_dep_time': 'INT', 'dep_delay': 'BIGINT',
        'arr_time': 'INT', 'sched_arr_time': 'INT', 'arr_delay': 'BIGINT', 'carrier': 'VARCHAR', 'flight': 'INT',
        'tailnum': 'VARCHAR', 'origin': 'VARCHAR', 'dest': 'VARCHAR', 'air_time': 'INT', 'distance': 'INT',
        'hour': 'INT', 'minute': 'INT', 'time_hour': 'VARCHAR'})
"""

_AIRLINES = "CREATE TABLE airlines AS SELECT * FROM read_csv(?, header = true, all_varchar = true)"

_HOURLY = """
    WITH reports AS (
        SELECT * FROM departures WHERE day_number < $days
        UNION ALL
        SELECT * FROM departures WHERE day_number + 1 < $days AND dep_delay >= $late)
    SELECT time_hour, origin, carrier, any_value(name), count(*), count(*) FILTER (dep_time IS NULL),
           sum(dep_delay)::DOUBLE / count(dep_delay), max(dep_delay), sum(arr_delay)::BIGINT
    FROM reports LEFT JOIN airlines USING (carrier) GROUP BY time_hour, origin, carrier
"""

_LONG_DELAYS = """
    SELECT carrier, flight, origin, dest, year, month, day, sched_dep_time, dep_delay
    FROM departures WHERE day_number < $days AND dep_delay >= $late
"""


@dataclass(frozen=True, slots=True)
class Truth:
    """The right answer.

    :param days: Days that were fed.
    :param hourly: (hour, origin, carrier) -> the columns of ``HOURLY_VALUES``.
    :param long_delays: Key of the table -> departure delay in minutes.
    """

    days: int
    hourly: dict[HourKey, tuple[object, ...]]
    long_delays: dict[DelayKey, int]


def compute(flights: Path, airlines: Path, *, days: int) -> Truth:
    """Return the right answer for the first *days* days of *flights*.

    :raises ValueError: The input itself has one departure twice: then no answer would be right.
    """
    parameters = {"days": days, "late": LONG_DELAY_MINUTES}
    with duckdb.connect() as database:
        database.execute(DEPARTURES, [str(flights)])
        database.execute(_AIRLINES, [str(airlines)])
        hourly = database.execute(_HOURLY, parameters).fetchall()
        long = database.execute(_LONG_DELAYS, parameters).fetchall()
    delays = {row[:8]: row[8] for row in long}
    if len(delays) != len(long):
        message = f"{flights} holds {len(long) - len(delays)} departures twice"
        raise ValueError(message)
    return Truth(days, {row[:3]: row[3:] for row in hourly}, delays)
