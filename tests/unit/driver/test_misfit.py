"""Failures of a start: texts that name a misfit, and the reason that is stored."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ha.driver.ending.exit_reason import (
    FAILURE_FILE,
    REASON_LIMIT,
    ROOM,
    ExitCode,
    read_details,
    read_failure,
    reserve,
    write_failure,
)
from airflow_provider_ha.driver.ending.failure_kinds import classify
from airflow_provider_ha.driver.queries.query_fit import PreviousGraph, with_misfit
from airflow_provider_ha.errors import CheckpointMissingError
from airflow_provider_ha.jobs.runs.submissions import Failure, FailureKind


SPARK = "org.apache.spark.sql.execution.streaming.state"
REFUSALS = [
    "java.lang.AssertionError: assertion failed: There are [1] sources in the checkpoint offsets and now there are [3]",
    f"{SPARK}.StateStoreKeySchemaNotCompatible: [STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE] Provided key",
    f"{SPARK}.StateStoreValueSchemaNotCompatible: [STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE] Provided value schema",
    f"{SPARK}.X: [STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA] Streaming stateful operator name does not",
    "java.lang.IllegalStateException: Partition events-0's offset was changed from 100 to 5. Some data may have been",
    "org.apache.spark.SparkFileNotFoundException: [BATCH_METADATA_NOT_FOUND] Unable to find batch /o/3.",
    "io.delta.exceptions.X: [DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE] The streaming query was reading from",
    "java.lang.UnsupportedOperationException: Detected a data update (for example part-0) in the source table",
    "java.lang.IllegalStateException: Cannot load current offset at snapshot 42, the snapshot was expired or removed",
    "java.lang.IllegalStateException: Cannot process overwrite snapshot: 7, to ignore overwrites set ...",
]
FUNCTION = """org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/a/main.py", line 3, in write
RuntimeError: sink answered 503"""
BREAKS = "java.lang.IllegalStateException: Plan has another shape"


class StreamingQueryException(Exception):  # noqa: N818  # pyspark's name
    def __init__(self, stack: str) -> None:
        super().__init__("[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception")
        self._stackTrace = stack


def judged(stack: str, *, changed: tuple[str, ...] = ()) -> Failure:
    error = StreamingQueryException(f"Caused by: {stack}\n\tat org.apache.spark.X.run(X.scala:1)")
    text = f"{error}\n{error._stackTrace}"
    failure = Failure(kind=classify(text).kind, error_class="E", query="rows", batches={"rows": 4})
    previous: Any = SimpleNamespace(changed=changed, way_back="Go back.")
    return with_misfit(failure, error, previous)


@pytest.mark.parametrize("stack", REFUSALS, ids=[each[:60] for each in REFUSALS])
def test_a_refusal_of_the_checkpoint_never_passes_whether_the_graph_has_changed_or_not(stack: str) -> None:
    failure = judged(stack)

    assert (failure.kind, failure.misfit) == (FailureKind.APPLICATION, "Go back.")


@pytest.mark.parametrize(("changed", "misfit"), [(("arguments",), "Go back."), ((), "")])
def test_another_error_of_spark_itself_is_one_only_with_another_graph(changed: tuple[str, ...], misfit: str) -> None:
    assert judged(BREAKS, changed=changed).misfit == misfit


@pytest.mark.parametrize(
    "stack",
    [
        "java.net.ConnectException: Connection refused",
        "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment",
        "org.postgresql.util.PSQLException: FATAL: the database system is starting up",
        "org.apache.spark.SparkException: Job aborted\nCaused by: org.postgresql.util.PSQLException: FATAL: starting",
        FUNCTION,
    ],
)
def test_neither_an_outage_nor_a_function_nor_a_server_is_one_whatever_has_changed(stack: str) -> None:
    assert judged(stack, changed=("arguments", "application")).misfit == ""


def previous(source: str, source_id: str, *, own: int = 5, job: str = "orders") -> PreviousGraph:
    """Return what run 5 begins from: checkpoint 7 is of run 2, savepoint ``weekly`` of run 1; nothing else is there."""

    def found(there: object, wanted: object, run: int) -> Any:
        if wanted != there:
            raise CheckpointMissingError(f"there is no {wanted}")
        return SimpleNamespace(run=run)

    led: Any = SimpleNamespace(run=SimpleNamespace(number=own), graph=SimpleNamespace(job_id="orders"))
    plan: Any = SimpleNamespace(source=source, source_id=source_id, source_job=job, adopted={}, name="it")
    checkpoints: Any = SimpleNamespace(pointer=lambda number: found(7, number, 2))
    savepoints: Any = SimpleNamespace(load=lambda name: found("weekly", name, 1))
    return PreviousGraph(led, plan, checkpoints, savepoints)


@pytest.mark.parametrize(
    ("source", "source_id", "run"),
    [
        ("checkpoint", "7", 2),
        ("savepoint", "weekly", 1),
        ("checkpoint", "8", None),
        ("savepoint", "gone", None),
    ],
)
def test_the_run_that_wrote_it_is_the_one_that_its_record_names_and_never_a_guess(
    source: str, source_id: str, run: int | None
) -> None:
    assert previous(source, source_id).run == run


def test_what_this_run_or_another_job_wrote_has_no_previous_graph() -> None:
    assert previous("checkpoint", "7", own=2).run is None
    assert previous("checkpoint", "7", job="payments").run is None


def test_the_first_reason_of_a_failure_stays(tmp_path: Path) -> None:
    reserve(tmp_path)

    write_failure(tmp_path, ExitCode.FAILED, "the cause")
    write_failure(tmp_path, ExitCode.LEADERSHIP_LOST, "its echo")

    assert read_failure(tmp_path) == "the cause"


def test_a_reason_that_fills_the_reserved_room_is_read_back(tmp_path: Path) -> None:
    reserve(tmp_path)
    longest = "\N{GRINNING FACE}" * REASON_LIMIT

    write_failure(tmp_path, ExitCode.FAILED, longest + "!")

    assert read_failure(tmp_path) == longest


def test_the_reason_is_for_its_owner_only(tmp_path: Path) -> None:
    reserve(tmp_path)

    write_failure(tmp_path, ExitCode.FAILED, "the cause")

    assert stat.S_IMODE((tmp_path / FAILURE_FILE).stat().st_mode) == 0o600


def test_a_reason_that_cannot_be_written_or_said_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that leaves it is about to end the process, and has to get there."""
    with Path("/dev/full").open("w", encoding="utf-8", buffering=1) as full:
        monkeypatch.setattr(sys, "stderr", full)
        write_failure(tmp_path / "nowhere", ExitCode.FAILED, "the cause")
        monkeypatch.undo()
        with pytest.raises(OSError, match="No space"):
            full.flush()
        os.dup2(os.open(os.devnull, os.O_WRONLY), full.fileno())  # so that closing it does not raise


ON_A_FULL_DISK = """
import os, sys
from pathlib import Path
from airflow_provider_ha.driver.ending.exit_reason import ExitCode
from airflow_provider_ha.driver.ending.exit_reason import read_failure, reserve, write_failure
directory = Path(sys.argv[1])
reserve(directory)
try:
    with (directory / "filler").open("wb", buffering=0) as filler:
        while True:
            filler.write(b"x" * 4096)
except OSError as error:
    print(error.errno)
write_failure(directory, ExitCode.FAILED, "the cause")
print(read_failure(directory))
"""


def test_a_full_disk_keeps_no_reason_from_being_written(tmp_path: Path) -> None:
    mount = f"mount -t tmpfs -o size=1m tmpfs {tmp_path} && "
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    if subprocess.run([*command, mount + "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this host does not let a user mount a file system")

    run = subprocess.run(
        [*command, mount + f"exec {sys.executable} -c '{ON_A_FULL_DISK}' {tmp_path}"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert run.stdout.split("\n")[:2] == ["28", "the cause"]


def test_the_failure_is_read_back_with_the_longest_reason(tmp_path: Path) -> None:
    reserve(tmp_path)
    wide = "\N{GRINNING FACE}"
    told = Failure(error_class=wide * 200, message=wide * 500, query="q", batches={"q": 4}, location=wide * 200)

    write_failure(tmp_path, ExitCode.FAILED, wide * REASON_LIMIT, told)

    assert read_details(tmp_path) == told
    assert (tmp_path / FAILURE_FILE).stat().st_size < ROOM


def test_failure_without_details_has_none(tmp_path: Path) -> None:
    write_failure(tmp_path, ExitCode.FAILED, "the cause")

    assert read_details(tmp_path) is None
    assert read_details(tmp_path / "nowhere") is None


@pytest.mark.parametrize(
    ("query", "batches", "said"),
    [
        ("rows", {"rows": 4}, "query 'rows' after batch 4"),
        ("rows", {"rows": -1}, "query 'rows' before its first batch"),
        (None, {"rows": 4, "late": -1}, "the script after batch 4 of 'rows'"),
        (None, {}, "the script before any batch"),
        (None, None, "the script before any batch"),
    ],
)
def test_position_names_the_query_and_what_it_has_committed(
    query: str | None, batches: dict[str, int] | None, said: str
) -> None:
    assert Failure(query=query, batches=batches).position == said
