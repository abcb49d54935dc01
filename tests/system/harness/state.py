"""Compares the state of a checkpoint with what it must hold, computed from the CSV file alone.

Plain Spark reads the checkpoint, without anything of ours: a copy of a savepoint.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import duckdb

from tests.system.harness.compare import Comparison, compare_rows
from tests.system.harness.flights import LONG_DELAY_MINUTES
from tests.system.harness.spark_submit import spark_submit
from tests.system.harness.truth import DEPARTURES, Truth


READER = Path(__file__).parents[2] / "apps" / "system" / "read_state.py"

_SECONDS = 600
_LATE = """
    SELECT carrier, flight, origin, dest, year, month, day, sched_dep_time, time_hour
    FROM departures WHERE day_number < $days AND dep_delay >= $late
"""


def watermark(checkpoint: Path) -> datetime:
    """Return the watermark of the last batch that the query of a checkpoint has executed."""
    newest = max((checkpoint / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    metadata = json.loads(newest.read_text().splitlines()[1])
    return datetime.fromtimestamp(metadata["batchWatermarkMs"] / 1000, tz=timezone.utc)


def read_state(checkpoints: Path, scratch: Path) -> dict[str, list[list[Any]]]:
    """Let plain Spark read the state of both queries.

    :raises subprocess.CalledProcessError: It could not.
    """
    out, log = scratch / "state.json", scratch / "read-state.log"
    with spark_submit(READER, str(checkpoints), str(out), log=log) as process:
        if process.wait(timeout=_SECONDS):
            raise RuntimeError(f"Spark could not read the state in {checkpoints}; see {log}")
    found: dict[str, list[list[Any]]] = json.loads(out.read_text())
    return found


def compare_state(flights: Path, truths: dict[str, Truth], checkpoints: Path, scratch: Path) -> list[Comparison]:
    """Compare the state of both queries.

    :param truths: Query -> the right answer for the days that it has read.
    """
    found = read_state(checkpoints, scratch)
    hourly = truths["hourly_delays"]
    open_since = watermark(checkpoints / "hourly_delays") - timedelta(hours=1)  # the window of an hour that is over
    hours = {key: values[1] for key, values in hourly.hourly.items() if _time(key[0]) > open_since}
    known_since = watermark(checkpoints / "long_delays")
    late = _late(flights, truths["long_delays"].days)
    delays = {key: hour for key, hour in late.items() if _time(hour) > known_since}
    rows = found["hourly_delays"]  # with the buffers of the aggregates; the first of them counts the flights
    return [
        compare_rows("hourly_delays: state", hours, [(tuple(row[:3]), row[3][0]) for row in rows]),
        compare_rows("long_delays: state", delays, [(tuple(row[:8]), row[8]) for row in found["long_delays"]]),
    ]


def _late(flights: Path, days: int) -> dict[tuple[object, ...], str]:
    with duckdb.connect() as database:
        database.execute(DEPARTURES, [str(flights)])
        rows = database.execute(_LATE, {"days": days, "late": LONG_DELAY_MINUTES}).fetchall()
    return {row[:8]: row[8] for row in rows}


def _time(hour: str) -> datetime:
    return datetime.strptime(hour, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)
