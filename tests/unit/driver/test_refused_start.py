"""Which errors of Spark are about the working directory, from their texts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ha.driver.ending.run_end import refused, refused_directory, refuses
from airflow_provider_ha.errors import CheckpointCorruptError, ConfigurationError
from airflow_provider_ha.jobs.runs.submissions import Failure, FailureKind


KEY = "jobs/flights/live/e2-0123"
PLACE = f"file:/data/ha/{KEY}/windows/state/0/0"
LOAD = "org.apache.spark.SparkException: [CANNOT_LOAD_STATE_STORE.{}] An error occurred during loading state."


class StreamingQueryException(Exception):  # noqa: N818  # its name in Spark
    """As pyspark raises it: the stack of the JVM lies beside the message."""

    def __init__(self, *causes: str) -> None:
        super().__init__("[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception")
        own = "org.apache.spark.sql.streaming.StreamingQueryException: [STREAM_FAILED] Query terminated"
        self._stackTrace = "\n".join([own, *(f"Caused by: {cause}" for cause in causes)])


REFUSALS = {
    "delta file": StreamingQueryException(LOAD.format("CANNOT_READ_DELTA_FILE_NOT_EXISTS")),
    "truncated": StreamingQueryException(
        LOAD.format("UNCATEGORIZED"),
        "java.io.EOFException: Stream ended prematurely",
    ),
    "missing": StreamingQueryException(f"java.io.FileNotFoundException: File {PLACE}/3.zip does not exist"),
    "escaped": StreamingQueryException(
        f"java.io.FileNotFoundException: File {PLACE.replace('-', '%2D')}/3.zip does not exist"
    ),
    "our own": CheckpointCorruptError("windows/commits/3", "it was never planned"),
}
OTHERS = {
    "input": StreamingQueryException("java.io.FileNotFoundException: File file:/data/input/3.json does not exist"),
    "another epoch": StreamingQueryException(f"java.io.FileNotFoundException: File {PLACE.replace('e2', 'e22')}/3"),
    "connection": StreamingQueryException(LOAD.format("UNCATEGORIZED"), "java.net.ConnectException: refused"),
    "full disk": StreamingQueryException(
        LOAD.format("UNCATEGORIZED"), f"java.io.IOException: {PLACE}: No space left on device"
    ),
    "memory": StreamingQueryException(LOAD.format("UNCATEGORIZED"), "java.lang.OutOfMemoryError: Java heap space"),
    "a mistake": ConfigurationError("no such option"),
}


@pytest.mark.parametrize("error", REFUSALS.values(), ids=list(REFUSALS))
def test_what_spark_says_of_a_damaged_directory_is_a_refusal(error: Exception) -> None:
    assert refuses(error, KEY)


@pytest.mark.parametrize("error", OTHERS.values(), ids=list(OTHERS))
def test_an_outage_or_another_file_says_nothing_about_the_directory(error: Exception) -> None:
    assert not refuses(error, KEY)


def registry(committed: int, *, before: int = 4, begun: frozenset[str] = frozenset({"windows"})) -> Any:
    query = SimpleNamespace(
        name="windows",
        handle=SimpleNamespace(exception=lambda: REFUSALS["delta file"]),
        status=lambda: SimpleNamespace(committed=committed),
        committed_before=before,
    )
    return SimpleNamespace(started=(query,), begun=begun)


def test_only_a_query_that_has_committed_nothing_since_its_start_was_refused() -> None:
    """What it cannot load later was there at its start: the next one is refused at its own."""
    assert refused_directory(None, registry(4), KEY)
    assert not refused_directory(None, registry(5), KEY)


def test_a_replay_that_fails_before_the_query_is_started_is_a_refusal() -> None:
    script = REFUSALS["missing"]

    assert refused_directory(script, registry(5, begun=frozenset({"windows", "rows"})), KEY)
    assert not refused_directory(script, registry(5), KEY)


def test_a_directory_that_the_driver_cannot_start_from_is_refused_as_well() -> None:
    assert refused_directory(REFUSALS["our own"], registry(5), KEY)


def test_a_jvm_that_is_gone_has_refused_nothing() -> None:
    def fails() -> None:
        raise ConnectionError

    query = SimpleNamespace(name="windows", handle=SimpleNamespace(exception=fails))

    assert not refused_directory(None, SimpleNamespace(started=(query,), begun=frozenset()), KEY)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "written"),
    [(FailureKind.APPLICATION, FailureKind.UNKNOWN), (FailureKind.OUTAGE, FailureKind.OUTAGE)],
)
def test_a_refusal_is_never_an_error_of_the_application(kind: FailureKind, written: FailureKind) -> None:
    registry = SimpleNamespace(started=(), begun=frozenset({"look"}))

    found = refused(Failure(kind=kind, error_class="ValueError"), KEY, registry)  # type: ignore[arg-type]

    assert (found.kind, found.refused, found.query) == (written, KEY, "look")
