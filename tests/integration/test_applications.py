"""The applications are scripts that anyone could have written: they run under plain ``spark-submit``, and as jobs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.api.job_client import JobClient
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.jobs.options.job_spec import JobSpec
from airflow_provider_ha.testing.waiting import wait_until
from tests.apps import parts
from tests.support.spark.driver_helpers import CONF, PATIENCE
from tests.system.harness.compare import Comparison, compare_hourly, compare_long_delays
from tests.system.harness.feeder import Feeder
from tests.system.harness.flights import data_file, flights_csv, read_year
from tests.system.harness.outputs import LocalOutput
from tests.system.harness.spark_submit import spark_submit
from tests.system.harness.truth import compute


FLIGHT_DELAYS = Path(__file__).parents[2] / "dags" / "apps" / "flight_delays.py"
DAYS = 6

pytestmark = pytest.mark.spark


def alive(process: Popen[bytes], log: Path, predicate: Callable[[], object]) -> Callable[[], object]:
    """Ask *predicate* only while *process* lives, and say why it died otherwise."""

    def ask() -> object:
        assert process.poll() is None, log.read_text()[-3000:]
        return predicate()

    return ask


def exited(job: JobClient) -> bool:
    """Whether the supervisor of the newest submission has said that every process is dead."""
    run = job.snapshot().run
    return run is not None and run.newest is not None and run.newest.exit is not None


@pytest.mark.hours
@pytest.mark.long
def test_the_flights_application_under_plain_spark_submit_computes_the_truth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Kathmandu")  # the result must not depend on the machine
    csv = tmp_path / "flights.csv"
    csv.write_bytes(flights_csv())
    Feeder(read_year(csv.read_bytes()), tmp_path / "in").feed_until(DAYS)
    airlines = data_file("airlines.csv")
    # The watermark stands two days behind the newest hour of day 6 (04:00 the day after): hours before it are written.
    final = "2013-01-05T04:00:00Z"
    truth = compute(csv, airlines, days=DAYS)
    hourly = {key: values for key, values in truth.hourly.items() if key[0] < final}
    output, table, log = tmp_path / "out", tmp_path / "long.db", tmp_path / "log"

    def results() -> tuple[Comparison, Comparison] | None:
        if not table.exists() or not (output / "_spark_metadata").is_dir():
            return None
        return (
            compare_hourly(type(truth)(DAYS, hourly, {}), LocalOutput(output)),
            compare_long_delays(truth, table),
        )

    def complete() -> tuple[Comparison, Comparison] | None:
        found = results()
        return found if found and all(result.found >= result.expected for result in found) else None

    options = ("--conf", f"spark.sql.streaming.checkpointLocation={tmp_path}/checkpoints")
    arguments = ("--input", tmp_path / "in", "--output", output, "--table", table, "--airlines", airlines)
    with spark_submit(
        FLIGHT_DELAYS, *map(str, arguments), "--max-files-per-trigger", "3", options=options, log=log
    ) as process:
        wait_until(alive(process, log, complete), timeout=90, what="all rows", interval=0.5)

    assert [result.verdict for result in results() or ()] == ["equal", "equal"]


@pytest.mark.hours
@pytest.mark.long
def test_the_application_that_uses_everything_finds_everything_under_plain_spark_submit(tmp_path: Path) -> None:
    built = parts.build(tmp_path / "parts")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("one\ntwo\n")
    found, log = tmp_path / "found.json", tmp_path / "log"
    options = (
        *("--conf", f"spark.sql.streaming.checkpointLocation={tmp_path}/checkpoints"),
        *("--py-files", ",".join(built.py_files)),
        *("--jars", str(built.jar)),
        *("--files", str(built.data_file)),
    )

    arguments = ("--input", str(tmp_path / "in"), "--found", str(found), "--run", "by-hand")
    with spark_submit(parts.APPLICATION, *arguments, options=options, log=log) as process:
        wait_until(alive(process, log, found.exists), timeout=60, what="the first batch", interval=0.2)

    assert json.loads(found.read_text()) == parts.EXPECTED | {"run": "by-hand", "batch": 0, "lines": 2}


@pytest.mark.hours
@pytest.mark.long
def test_what_belongs_to_an_application_travels_with_its_job(config: HaConfig, tmp_path: Path) -> None:
    built = parts.build(tmp_path / "parts")
    script = Path(shutil.copytree(parts.APPLICATION.parent, tmp_path / "checkout")) / parts.APPLICATION.name
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("one\ntwo\n")
    found = tmp_path / "found.json"
    request = JobSpec(
        job_id="everything",
        request_id="test",
        application=str(script),
        arguments=["--input", str(tmp_path / "in"), "--found", str(found), "--run", "by-hand"],
        py_files=built.py_files,
        jars=[str(built.jar)],
        files=[str(script.parent / built.data_file.name)],
        conf={key: value for key, value in CONF.items() if key not in ("spark.master", "spark.driver.memory")},
        master="local[1]",
        driver_memory="1g",
    )
    with HaClient.open(config) as client:
        job = client.job("everything")
        job.submit(request)
        shutil.rmtree(tmp_path / "parts")  # what was submitted has been stored: nothing is read from here again
        shutil.rmtree(script.parent)

        wait_until(found.exists, timeout=PATIENCE, what="the first batch", interval=0.2)
        job.request_cancel(operation_id="end", requested_by="test")
        wait_until(lambda: exited(job), timeout=PATIENCE, what="the death of the driver to be proven")

    assert json.loads(found.read_text()) == parts.EXPECTED | {"run": "by-hand", "batch": 0, "lines": 2}
