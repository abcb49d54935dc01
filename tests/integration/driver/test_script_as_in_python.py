"""A script under a real driver finds the Python that it has under spark-submit: threads, logging, its end, signals."""

from __future__ import annotations

import os
import signal
from functools import partial
from pathlib import Path

import pytest

from airflow_provider_ha.coordination.znode_records import read_record
from airflow_provider_ha.driver.ending.exit_reason import ExitCode
from airflow_provider_ha.driver.ending.stop_job import SCRIPT_END_SECONDS
from airflow_provider_ha.jobs.model import Generation, JobState, OperationKind, OperationState
from airflow_provider_ha.query_names import query_directory
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.spark.driver_helpers import APPS, PATIENCE, ManagedJob, finished


pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]
QUERIES = ("orders", "payments")


def feed(source: Path, number: int) -> None:
    source.mkdir(parents=True, exist_ok=True)
    aside = source.parent / f"{source.name}-{number}"
    aside.write_text(f"row {number}\n")
    aside.rename(source / f"{number}.txt")


@pytest.mark.parametrize("kind", ["threads", "pool"])
def test_queries_in_threads_run_recover_and_stop_as_those_of_a_main_thread(
    kind: str, managed: ManagedJob, tmp_path: Path
) -> None:
    source = tmp_path / "in"
    for query in QUERIES:
        feed(source / query, 0)
    run = managed.submit(APPS / "threads.py", [str(source), str(tmp_path / "out"), kind])
    first = managed.start(run)
    managed.await_consumed(first, QUERIES, 0)
    wait_until(lambda: managed.status and managed.status.state is JobState.RUNNING, timeout=PATIENCE, what="RUNNING")
    assert managed.status is not None
    assert set(managed.status.queries) == set(QUERIES)
    managed.kill(first)
    for query in QUERIES:
        feed(source / query, 1)

    second = managed.start(run, managed.resubmit(run))
    managed.await_consumed(second, QUERIES, 1)
    answer = managed.await_operation(managed.ask(OperationKind.STOP, mode="suspend"))

    assert answer.state is OperationState.COMPLETED, answer.error
    assert second.wait(PATIENCE) == ExitCode.DONE, managed.log(run, 2)
    assert finished(managed.result(run)).reason == "suspended"


@pytest.mark.hours
def test_a_script_logs_as_it_sets_up_and_its_functions_for_the_end_are_called(
    managed: ManagedJob, tmp_path: Path
) -> None:
    feed(tmp_path / "in", 0)
    own = tmp_path / "own.log"
    run = managed.submit(APPS / "own_logging.py", [str(tmp_path / "in"), str(tmp_path / "out"), str(own)])

    assert managed.start(run).wait(PATIENCE) == ExitCode.DONE, managed.log(run)

    finished(managed.result(run))
    assert own.read_text().splitlines() == ["MINE DEBUG started", "MINE INFO done"]
    assert own.with_name("own.log.end").exists()
    assert "INFO airflow_provider_ha.driver.checkpointing.publisher: checkpoint" in managed.log(run)


@pytest.mark.hours
def test_the_functions_for_the_end_of_a_script_are_not_called_at_a_cancel(managed: ManagedJob, tmp_path: Path) -> None:
    feed(tmp_path / "in", 0)
    own = tmp_path / "own.log"
    run = managed.submit(APPS / "own_logging.py", [str(tmp_path / "in"), str(tmp_path / "out"), str(own), "endless"])
    process = managed.start(run)
    managed.await_consumed(process, ("lines",), 0)

    managed.ask(OperationKind.CANCEL)

    assert process.wait(PATIENCE) != ExitCode.DONE, managed.log(run)
    assert not own.with_name("own.log.end").exists()


@pytest.mark.hours
def test_a_script_that_ends_well_after_a_signal_from_outside_is_started_again(
    managed: ManagedJob, tmp_path: Path
) -> None:
    feed(tmp_path / "in", 0)
    run = managed.submit(APPS / "handles_sigterm.py", [str(tmp_path / "in"), str(tmp_path / "out")])
    process = managed.start(run)
    managed.await_consumed(process, ("lines",), 0)

    os.kill(int((managed.directory(run) / "driver.pid").read_text()), signal.SIGTERM)

    assert process.wait(PATIENCE) == ExitCode.RESTART_WANTED, managed.log(run)
    assert managed.result(run) is None
    assert "SIGTERM" in managed.failure(run)


@pytest.mark.hours
def test_queries_for_a_look_at_rows_do_not_keep_a_query_from_its_recovery(managed: ManagedJob, tmp_path: Path) -> None:
    feed(tmp_path / "in", 0)
    run = managed.submit(APPS / "debugged.py", [str(tmp_path / "in"), str(tmp_path / "out")])
    first = managed.start(run)
    managed.await_consumed(first, ("lines", "counts"), 0)
    wait_until(lambda: managed.status and managed.status.state is JobState.RUNNING, timeout=PATIENCE, what="RUNNING")
    managed.kill(first)
    feed(tmp_path / "in", 1)

    second = managed.start(run, managed.resubmit(run))
    managed.await_consumed(second, ("lines", "counts"), 1)
    answer = managed.await_operation(managed.ask(OperationKind.STOP, mode="terminate"))

    assert answer.state is OperationState.COMPLETED, answer.error
    assert second.wait(PATIENCE) == ExitCode.DONE, managed.log(run, 2)
    newest = managed.newest_checkpoint()
    assert newest is not None
    assert {"lines", "counts"} <= newest.cut.keys()
    assert "seen" not in newest.cut


@pytest.mark.hours
@pytest.mark.parametrize("script", ["debugged.py", "continuous_look.py"])
def test_a_script_with_nothing_but_a_console_runs_and_stops(script: str, managed: ManagedJob, tmp_path: Path) -> None:
    feed(tmp_path / "in", 0)
    run = managed.submit(APPS / script, [str(tmp_path / "in"), "-"])
    process = managed.start(run)
    wait_until(
        lambda: process.poll() is not None or (managed.status and managed.status.state is JobState.RUNNING),
        timeout=PATIENCE,
        what="RUNNING",
    )
    wait_until(lambda: "row 0" in managed.log(run), timeout=PATIENCE, what="the first row")

    answer = managed.await_operation(managed.ask(OperationKind.STOP, mode="suspend"))

    assert answer.state is OperationState.COMPLETED, answer.error
    assert process.wait(PATIENCE) == ExitCode.DONE, managed.log(run)
    assert answer.finished_at is not None
    assert (answer.finished_at - answer.requested_at).total_seconds() < SCRIPT_END_SECONDS / 2, "its script has ended"


@pytest.mark.hours
@pytest.mark.parametrize("damage", ["state of counts", "metadata of look", "offsets of look"])
def test_damage_of_a_look_at_rows_makes_no_other_query_fall_back(
    damage: str, managed: ManagedJob, tmp_path: Path
) -> None:
    feed(tmp_path / "in", 0)
    run = managed.submit(APPS / "debugged.py", [str(tmp_path / "in"), str(tmp_path / "out")])
    first = managed.start(run)
    managed.await_consumed(first, ("lines", "counts", "look"), 0)
    wait_until(lambda: managed.status and managed.status.state is JobState.RUNNING, timeout=PATIENCE, what="RUNNING")
    managed.kill(first)
    assert managed.working is not None
    kind, _, query = damage.partition(" of ")
    for path in (managed.working / query).rglob("*"):
        if kind in path.parts and path.is_file() and path.name[0] != ".":
            path.write_bytes(bytes(len(path.read_bytes())))
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    feed(tmp_path / "in", 1)

    attempt = 1
    while attempt < 4:
        attempt = managed.resubmit(run)
        process = managed.start(run, attempt)
        wait_until(
            partial(lambda driver: driver.poll() is not None or managed.progress("lines").committed >= 1, process),
            timeout=PATIENCE,
            what="batch 1, or the end of the driver",
        )
        if process.poll() is None:
            break
    managed.await_consumed(process, ("lines", "counts", "look"), 0)

    found = read_record(managed.coordinator, managed.paths.generation, Generation)
    assert found is not None
    assert found[0].fallback is None, managed.log(run, attempt)
    answer = managed.await_operation(managed.ask(OperationKind.STOP, mode="suspend"))
    assert answer.state is OperationState.COMPLETED, answer.error
    files = (tmp_path / "out").glob("*.json")
    lines = [line for path in files for line in path.read_text().splitlines()]
    assert sorted(lines) == ['{"value":"row 0"}', '{"value":"row 1"}']


@pytest.mark.hours
def test_a_job_with_nothing_but_a_console_is_saved_stopped_and_restored(managed: ManagedJob, tmp_path: Path) -> None:
    feed(tmp_path / "in", 0)
    run = managed.submit(APPS / "debugged.py", [str(tmp_path / "in"), "-"])
    process = managed.start(run)
    wait_until(
        lambda: process.poll() is not None or (managed.status and managed.status.state is JobState.RUNNING),
        timeout=PATIENCE,
        what="RUNNING",
    )

    saved = managed.await_operation(managed.ask(OperationKind.SAVEPOINT))
    stopped = managed.await_operation(managed.ask(OperationKind.STOP, mode="suspend", savepoint=True))

    assert (saved.state, stopped.state) == (OperationState.COMPLETED, OperationState.COMPLETED), (saved, stopped)
    assert process.wait(PATIENCE) == ExitCode.DONE, managed.log(run)
    again = managed.submit(APPS / "debugged.py", [str(tmp_path / "in"), "-"])
    process = managed.start(again)
    wait_until(
        lambda: process.poll() is not None or "row 0" in managed.log(again), timeout=PATIENCE, what="the rows of run 2"
    )
    assert process.poll() is None, managed.log(again)


@pytest.mark.hours
def test_a_query_has_any_name_that_spark_takes(managed: ManagedJob, tmp_path: Path) -> None:
    names = ("Flattened Orders", "Flattened~20Orders", "a/b", "Заказы")
    written = tuple(map(query_directory, names))
    feed(tmp_path / "in", 0)
    run = managed.submit(APPS / "names.py", [str(tmp_path / "in"), str(tmp_path / "out"), *names])
    first = managed.start(run)
    managed.await_consumed(first, written, 0)
    wait_until(lambda: managed.status and managed.status.state is JobState.RUNNING, timeout=PATIENCE, what="RUNNING")
    managed.kill(first)
    feed(tmp_path / "in", 1)

    second = managed.start(run, managed.resubmit(run))
    managed.await_consumed(second, written, 1)
    answer = managed.await_operation(managed.ask(OperationKind.STOP, mode="terminate"))

    assert answer.state is OperationState.COMPLETED, answer.error
    assert second.wait(PATIENCE) == ExitCode.DONE, managed.log(run, 2)
    newest = managed.newest_checkpoint()
    assert newest is not None
    assert newest.cut == dict.fromkeys(written, 1)
    assert "query Flattened Orders started at" in managed.log(run, 2)
    for number in range(len(names)):
        files = (tmp_path / "out" / str(number)).glob("*.json")
        lines = [line for path in files for line in path.read_text().splitlines()]
        assert sorted(lines) == ['{"value":"row 0"}', '{"value":"row 1"}']


@pytest.mark.hours
def test_a_session_that_is_stopped_and_built_again_is_another_one(managed: ManagedJob, tmp_path: Path) -> None:
    feed(tmp_path / "in", 0)
    output = tmp_path / "out"
    output.mkdir()
    run = managed.submit(APPS / "two_sessions.py", [str(tmp_path / "in"), str(output)])
    process = managed.start(run)
    managed.await_consumed(process, ("first", "second"), 0)
    wait_until(lambda: managed.status and managed.status.state is JobState.RUNNING, timeout=PATIENCE, what="RUNNING")

    answer = managed.await_operation(managed.ask(OperationKind.STOP, mode="suspend"))

    assert answer.state is OperationState.COMPLETED, answer.error
    assert process.wait(PATIENCE) == ExitCode.DONE, managed.log(run)
    assert (output / "conf").read_text() == "second 7"
    assert (output / "ended").read_text() == "False 0"
    newest = managed.newest_checkpoint()
    assert newest is not None
    assert newest.cut == {"first": 0, "second": 0}
