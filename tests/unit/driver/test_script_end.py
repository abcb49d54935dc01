"""Application of a driver: preparation, imports of its workers, report and end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from airflow_provider_ha.checkpoints.model import QuerySink, SinkKind
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.clock import SystemClock, new_id
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.driver.ending import run_end
from airflow_provider_ha.driver.ending.exit_reason import ExitCode, read_failure
from airflow_provider_ha.driver.ending.stop_job import StopFailedError, stop_all
from airflow_provider_ha.driver.members.run_writer import RunningApplication, SparkApplication
from airflow_provider_ha.driver.queries.query_naming import StartLedger
from airflow_provider_ha.driver.queries.query_registry import QueryRegistry
from airflow_provider_ha.driver.queries.resting_queries import RestingQuery
from airflow_provider_ha.driver.script import Lifecycle
from airflow_provider_ha.driver.script_environment import archive_item, import_wheels, search_archive
from airflow_provider_ha.jobs.drivers.driver_home import Ticket
from airflow_provider_ha.jobs.drivers.driver_spec import SPEC_VARIABLE, DriverSpec
from airflow_provider_ha.jobs.job_graph import Blob
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.operations import operations


SINK = QuerySink(kind=SinkKind.FOREACH_BATCH)


@pytest.fixture
def registry(tmp_path: Path) -> QueryRegistry:
    """Two queries that lie at rest."""
    registry = QueryRegistry(SystemClock())
    resting = [RestingQuery(name, LocalTree(tmp_path / name), SINK) for name in ("started-before", "never-started")]
    registry.expect(resting, complete=True)
    return registry


def test_the_end_of_a_script_drops_only_what_the_run_never_started_and_says_so(
    registry: QueryRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = StartLedger(LocalTree(tmp_path))
    ledger.note("started-before", SINK)
    cut: list[str] = []

    def publish(_: Any) -> SimpleNamespace:
        cut.extend(query.name for query in registry.members)
        return SimpleNamespace(number=5, pin="pins/5")

    parts = MagicMock(
        registry=registry,
        ledger=ledger,
        lifecycle=Lifecycle(),
        publisher=SimpleNamespace(publish=publish),
        origin=SimpleNamespace(plans={"started-before": None, "never-started": None}),
    )
    way_out = MagicMock(leave=MagicMock(side_effect=SystemExit))
    monkeypatch.setattr(operations, "list_operations", lambda *_: [])

    with pytest.raises(SystemExit):
        run_end.DriverEnd(MagicMock(), MagicMock(), way_out, parts)._finish()

    assert cut == ["started-before"]
    (state,), said = parts.writer.end.call_args
    assert (state, said["checkpoint"]) == (JobState.FINISHED, 5)
    assert said["reason"] == (
        "the script ended; it never started 'never-started', which the run was restored with: checkpoint 5 drops them; "
        "it did not start 'started-before' again, which checkpoint 5 holds as it was"
    )


def test_the_end_of_a_script_that_started_everything_needs_no_words() -> None:
    assert run_end.script_ended([], [], 5) == "the script ended"


def test_a_stop_does_not_go_on_while_a_query_is_being_started(
    registry: QueryRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_provider_ha.driver.ending.stop_job.STOP_SECONDS", 0.0)
    lifecycle = Lifecycle()
    with lifecycle.start_of_a_query():
        lifecycle.begin_stop()

        with pytest.raises(StopFailedError, match="still being started"):
            stop_all(registry, lifecycle)

    stop_all(registry, lifecycle)


pyspark = pytest.importorskip("pyspark")


class Context:
    """A context of pyspark that counts how often it is asked."""

    def __init__(self, ui: str | None = "http://driver:4040", **conf: str) -> None:
        self.conf = {name.replace("__", "."): value for name, value in conf.items()}
        self.ui, self.asked = ui, 0
        self.applicationId = "app-20261124-0001"  # pyspark's own name

    def getConf(self) -> Any:  # noqa: N802  # the same
        self.asked += 1
        return self.conf

    @property
    def uiWebUrl(self) -> str | None:  # noqa: N802  # the same
        if self.ui == "gone":
            raise ConnectionError("the JVM does not answer")
        return self.ui


@pytest.fixture
def active(monkeypatch: pytest.MonkeyPatch) -> Any:
    return lambda context: monkeypatch.setattr(pyspark.SparkContext, "_active_spark_context", context)


def test_a_context_is_asked_once_and_the_next_one_again(active: Any) -> None:
    running, first, second = RunningApplication(), Context(), Context(ui=None)

    active(None)
    assert running() == SparkApplication()
    active(first)
    assert [running(), running()] == [SparkApplication("app-20261124-0001", "http://driver:4040")] * 2
    active(None)
    assert running().ui == "http://driver:4040", "a session that is stopped is still the last one"
    active(second)
    assert running() == SparkApplication("app-20261124-0001", "")
    assert (first.asked, second.asked) == (1, 1)


def test_behind_a_proxy_the_ui_is_where_the_proxy_is(active: Any) -> None:
    active(Context(spark__ui__reverseProxy="true", spark__ui__reverseProxyUrl="https://gate.example/spark/"))

    assert RunningApplication()().ui == "https://gate.example/spark/proxy/app-20261124-0001"


def test_a_jvm_that_does_not_answer_is_asked_again(active: Any) -> None:
    running, context = RunningApplication(), Context(ui="gone")
    active(context)

    assert running() == SparkApplication()
    context.ui = "http://driver:4041"

    assert running().ui == "http://driver:4041"


# The real entry of the driver; only the wait for the lock is replaced, by a wait for the import.
PROGRAM = """
import sys
from airflow_provider_ha.driver import main as driver
from airflow_provider_ha.errors import JobStateError
from airflow_provider_ha.testing.waiting import wait_until

def lead(spec, clock):
    wait_until(lambda: "pyspark.sql.streaming.readwriter" in sys.modules, timeout=60, what="the import of pyspark")
    raise JobStateError("pyspark was imported while the lock was waited for")

assert "pyspark" not in sys.modules
driver.lead = lead
driver.main()
"""


def test_pyspark_is_imported_while_the_lock_is_waited_for(tmp_path: Path) -> None:
    spec = DriverSpec(
        config=HaConfig.build(zookeeper="127.0.0.1:1", storage_root=f"file://{tmp_path}/storage"),
        ticket=Ticket(job_id="flights", run=1, attempt=1, submission_id=new_id(), graph=Blob(sha256="0" * 64, size=0)),
        directory=tmp_path,
    )
    environment = os.environ | {SPEC_VARIABLE: str(spec.write())}

    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, check=False)

    assert done.returncode == ExitCode.NOT_ADMITTED, done.stderr.decode()
    assert "imported while the lock was waited for" in (read_failure(tmp_path) or "")


def context(conf: dict[str, str]) -> Any:
    """A stand-in for a ``SparkContext`` before it is started."""
    return SimpleNamespace(getConf=lambda: conf, _python_includes=None)


def started(conf: dict[str, str]) -> list[str]:
    """Return what the workers of a context with *conf* search, in the order in which Spark adds it to their path."""
    made = context(conf)

    def start(self: Any, *_: Any, **__: Any) -> None:
        self._python_includes = ["lib.zip"]

    search_archive(start)(made, "local", appName="app")
    return list(made._python_includes)


def test_the_archive_is_added_last_because_the_last_is_searched_first() -> None:
    shipped = archive_item(Path("/data/a b,c/modules.zip"))

    assert shipped == "file:///data/a%20b%2Cc/modules.zip#spark-ha-modules"
    assert started({"spark.archives": f"/own.zip#own,{shipped}"}) == ["lib.zip", "spark-ha-modules"]


@pytest.mark.parametrize("conf", [{}, {"spark.archives": "/own.zip#own"}])
def test_without_an_archive_nothing_is_added(conf: dict[str, str]) -> None:
    assert started(conf) == ["lib.zip"]


def test_wheels_are_searched_like_zips() -> None:
    class Context:
        PACKAGE_EXTENSIONS: tuple[str, ...] = (".zip", ".egg")

    import_wheels(Context)

    assert Context.PACKAGE_EXTENSIONS == (".zip", ".egg", ".whl")
