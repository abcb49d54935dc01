"""Evidence of a failure: errors of the script, its queries and its directory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.model import QuerySink, SinkKind
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.driver.ending.exit_reason import failure_of_driver
from airflow_provider_ha.driver.ending.run_end import refused, refused_directory, refuses
from airflow_provider_ha.driver.ending.run_failure import failure_of_run, own_modules, text_of
from airflow_provider_ha.driver.queries.query_registry import QueryRegistry, StartedQuery
from airflow_provider_ha.driver.queries.resting_queries import RestingQuery
from airflow_provider_ha.driver.queries.writer_notes import SinkSpec
from airflow_provider_ha.driver.script import Script
from airflow_provider_ha.errors import (
    CheckpointCorruptError,
    CheckpointError,
    ConfigurationError,
    StorageUnavailableError,
)
from airflow_provider_ha.jobs.job_graph import Artifact, Blob, JobGraph
from airflow_provider_ha.jobs.runs.submissions import Failure, FailureKind
from tests.support.checkpoints.portable_helpers import checkpoint


class StreamingQueryException(Exception):  # noqa: N818  # pyspark's name
    """What awaiting a query raises; the stack of the JVM is kept aside, as pyspark does it."""

    def __init__(self, message: str, stack: str) -> None:
        super().__init__(message)
        self._stackTrace = stack


MISTAKE = StreamingQueryException(
    "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted",
    "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
    "  File \"/jobs/main.py\", line 12, in parse\n    f(value)\nKeyError: 'price'\n",
)
AWAY = StreamingQueryException("[STREAM_FAILED] Query", "Caused by: java.net.ConnectException: Connection refused")


@dataclass
class Run:
    """A registry with queries that stand at batch 2, and a script."""

    registry: QueryRegistry
    folder: Path

    def query(self, name: str, error: Exception | None) -> None:
        directory = checkpoint(self.folder / name)
        handle: Any = SimpleNamespace(runId=name, exception=lambda: error)
        self.registry.add(StartedQuery(name, handle, SinkSpec(SinkKind.OTHER, "noop"), LocalTree(directory)))

    def script(self, code: str) -> BaseException | None:
        path = self.folder / "main.py"
        path.write_text(code)
        script = Script(path, [])
        script.run()
        return script.error

    def failure(self, error: BaseException | None = None) -> Failure:
        return failure_of_run(error, self.registry, modules=())


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(QueryRegistry(SystemClock()), tmp_path)


def test_query_that_failed_is_told_with_its_last_committed_batch(run: Run) -> None:
    run.query("rows", MISTAKE)
    run.query("windows", None)

    assert run.failure() == Failure(
        kind=FailureKind.APPLICATION,
        error_class="KeyError",
        message="'price'",
        query="rows",
        batches={"rows": 2},
        location="main.py:12 in parse",
    )


def test_script_that_only_waited_for_a_query_is_not_what_failed(run: Run) -> None:
    run.query("rows", MISTAKE)

    assert run.failure(MISTAKE).query == "rows"


def test_script_that_fails_by_itself_is_told_with_every_query_of_the_run(run: Run) -> None:
    run.query("rows", None)
    run.registry.expect(
        [RestingQuery("late", LocalTree(checkpoint(run.folder / "late")), QuerySink(kind=SinkKind.OTHER))],
        complete=True,
    )

    failure = run.failure(run.script("def load():\n    return {}['price']\n\nload()\n"))

    assert (failure.kind, failure.error, failure.query) == (FailureKind.APPLICATION, "KeyError: 'price'", None)
    assert failure.batches == {"rows": 2, "late": 2}
    assert failure.location == "main.py:2 in load"


def test_module_that_is_missing_is_an_error_of_the_application(run: Run) -> None:
    failure = run.failure(run.script("import no_such_module\n"))

    assert failure.kind is FailureKind.APPLICATION
    assert failure.error == "ModuleNotFoundError: No module named 'no_such_module'"
    assert failure.batches == {}


def test_script_that_does_not_reach_a_server_has_met_an_outage_whatever_it_makes_of_it(run: Run) -> None:
    code = (
        "import socket\n"
        "try:\n    socket.create_connection(('127.0.0.1', 1), timeout=1)\n"
        "except OSError:\n    raise RuntimeError('no rows') from None\n"
    )

    assert run.failure(run.script(code)).kind is FailureKind.OUTAGE


def test_outage_of_one_query_explains_the_failure_of_another(run: Run) -> None:
    run.query("rows", MISTAKE)
    run.query("windows", AWAY)

    assert (run.failure().kind, run.failure().query) == (FailureKind.OUTAGE, "windows")


def test_script_that_ends_itself_after_a_query_failed_says_nothing_of_its_own(run: Run) -> None:
    run.query("rows", MISTAKE)

    assert run.failure(run.script("import sys\nsys.exit(1)\n")).query == "rows"


@pytest.mark.parametrize(
    ("call", "said"), [("sys.exit('no rows')", "exit status 1: no rows"), ("sys.exit(2)", "exit status 2")]
)
def test_script_that_ends_itself_is_told_with_its_status_and_its_line(call: str, said: str, run: Run) -> None:
    failure = run.failure(run.script(f"import sys\n{call}\n"))

    assert (failure.error, failure.location) == (f"SystemExit: {said}", "main.py:2 in <module>")
    assert failure.batches == {}


def test_query_that_cannot_be_read_any_more_leaves_the_failure_unknown(run: Run) -> None:
    def gone() -> Exception:
        raise ConnectionError("the JVM is gone")

    handle: Any = SimpleNamespace(runId="rows", exception=gone)
    run.registry.add(StartedQuery("rows", handle, SinkSpec(SinkKind.OTHER, "noop"), LocalTree(run.folder)))

    assert run.failure(KeyError("price")) == Failure(error_class="KeyError")


def test_message_holds_no_password(run: Run) -> None:
    failure = run.failure(run.script("raise ValueError('no table at jdbc://app:hunter2@db/prod')\n"))

    assert failure.message == "no table at jdbc://app:***@db/prod"


def test_message_is_one_line_of_a_length_that_a_znode_takes(run: Run) -> None:
    failure = run.failure(run.script("raise ValueError('x' * 9000 + '\\nmore')\n"))

    assert len(failure.message) == 500


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (StorageUnavailableError("object 'a' could not be read"), FailureKind.OUTAGE),
        (OSError(28, "No space left on device"), FailureKind.OUTAGE),
        (CheckpointError("batch 3 is not there"), FailureKind.UNKNOWN),
        (KeyError("price"), FailureKind.UNKNOWN),
    ],
)
def test_error_of_the_driver_itself_is_never_the_application_s(error: Exception, kind: FailureKind) -> None:
    assert failure_of_driver(error).kind is kind


def test_text_holds_the_stack_that_pyspark_keeps_aside_and_every_cause() -> None:
    try:
        try:
            raise MISTAKE
        except StreamingQueryException:
            raise ValueError("no price") from None
    except ValueError as error:
        text = text_of(error)

    assert "ValueError: no price" in text
    assert "KeyError: 'price'" in text


def test_own_modules_are_those_that_travel() -> None:
    blob = Blob(sha256="0" * 64, size=1)
    graph = JobGraph(
        job_id="j",
        name="j",
        application=Artifact(name="main.py", blob=blob),
        modules=(Artifact(name="pricing.zip", blob=blob, unpack=True),),
        py_files=(Artifact(name="rates.py", blob=blob),),
    )

    assert own_modules(graph) == {"main", "pricing", "rates"}


def test_errors_that_name_each_other_as_causes_are_told_once() -> None:
    first, second = ValueError("the first"), KeyError("the second")
    first.__cause__, second.__context__ = second, first

    told = text_of(first)

    assert (told.count("the first"), told.count("the second")) == (1, 1)


KEY = "jobs/flights/live/e2-0123"
PLACE = f"file:/data/ha/{KEY}/windows/state/0/0"
LOAD = "org.apache.spark.SparkException: [CANNOT_LOAD_STATE_STORE.{}] An error occurred during loading state."


class RefusedQueryException(Exception):  # noqa: N818  # its name in Spark
    """As pyspark raises it: the stack of the JVM lies beside the message."""

    def __init__(self, *causes: str) -> None:
        super().__init__("[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception")
        own = "org.apache.spark.sql.streaming.StreamingQueryException: [STREAM_FAILED] Query terminated"
        self._stackTrace = "\n".join([own, *(f"Caused by: {cause}" for cause in causes)])


REFUSALS = {
    "delta file": RefusedQueryException(LOAD.format("CANNOT_READ_DELTA_FILE_NOT_EXISTS")),
    "truncated": RefusedQueryException(
        LOAD.format("UNCATEGORIZED"),
        "java.io.EOFException: Stream ended prematurely",
    ),
    "missing": RefusedQueryException(f"java.io.FileNotFoundException: File {PLACE}/3.zip does not exist"),
    "escaped": RefusedQueryException(
        f"java.io.FileNotFoundException: File {PLACE.replace('-', '%2D')}/3.zip does not exist"
    ),
    "our own": CheckpointCorruptError("windows/commits/3", "it was never planned"),
}
OTHERS = {
    "input": RefusedQueryException("java.io.FileNotFoundException: File file:/data/input/3.json does not exist"),
    "another epoch": RefusedQueryException(f"java.io.FileNotFoundException: File {PLACE.replace('e2', 'e22')}/3"),
    "connection": RefusedQueryException(LOAD.format("UNCATEGORIZED"), "java.net.ConnectException: refused"),
    "full disk": RefusedQueryException(
        LOAD.format("UNCATEGORIZED"), f"java.io.IOException: {PLACE}: No space left on device"
    ),
    "memory": RefusedQueryException(LOAD.format("UNCATEGORIZED"), "java.lang.OutOfMemoryError: Java heap space"),
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
