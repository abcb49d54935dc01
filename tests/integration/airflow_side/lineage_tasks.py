"""Tasks whose OpenLineage events go to a real receiver: fixtures, and what a test asks about them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.checkpoints.model import BatchEntry, QuerySink, SinkKind
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.operators.submit import SparkHaSubmitOperator
from tests.integration.airflow_side.task_runner import submit_stand_in
from tests.integration.conftest import source  # noqa: F401  # a fixture
from tests.support.checkpoints.checkpoint_helpers import Job
from tests.support.clusters import submit_helpers as helpers
from tests.support.clusters.airflow_helpers import context
from tests.support.clusters.jobs_helpers import submit
from tests.support.lineage_receiver import LineageReceiver, receiving
from tests.support.spark.recorded_job import QUERY


openlineage = pytest.importorskip("airflow.providers.openlineage")

from airflow.providers.openlineage import conf as provider_conf  # noqa: E402
from airflow.providers.openlineage.plugins import listener  # noqa: E402
from airflow.providers.openlineage.plugins.listener import OpenLineageListener, get_openlineage_listener  # noqa: E402


API_KEY = "key-of-the-lineage-server"
NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
Submitting = Callable[..., SparkHaSubmitOperator]


def forget_configuration() -> None:
    """The provider reads Airflow's configuration once per process."""
    for each in vars(provider_conf).values():
        if hasattr(each, "cache_clear"):
            each.cache_clear()
    if hasattr(get_openlineage_listener, "cache_clear"):
        get_openlineage_listener.cache_clear()
    else:  # older releases of the provider keep it themselves
        vars(listener)["_openlineage_listener"] = None


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[LineageReceiver]:
    """A receiver that Airflow's OpenLineage provider sends its events to."""
    with receiving() as started:
        monkeypatch.setenv("AIRFLOW__OPENLINEAGE__TRANSPORT", json.dumps(started.transport))
        monkeypatch.setenv("AIRFLOW__OPENLINEAGE__NAMESPACE", "tests")
        monkeypatch.setenv("AIRFLOW__OPENLINEAGE__EXECUTE_IN_THREAD", "True")  # no fork of the process of the tests
        forget_configuration()
        yield started
    monkeypatch.undo()
    forget_configuration()


@pytest.fixture
def submitting(
    tmp_path: Path, config: HaConfig, coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Submitting]:
    """Makes the task of a DAG; every process of its driver is gone afterwards."""
    monkeypatch.setenv("SPARK_HOME", str(helpers.stand_in_spark(tmp_path / "spark")))
    application = str(helpers.script(tmp_path))

    def make(*, mode: str = "wait", **kwargs: Any) -> SparkHaSubmitOperator:
        return submit_stand_in(application, mode=mode, ha={"restart_in_place": False, **kwargs.pop("ha", {})}, **kwargs)

    yield make
    helpers.kill_all(helpers.context(config, coordinator))


def in_a_dag(operator: Any, *, run_id: str = "manual__1", attempt: int = 1) -> dict[str, Any]:
    """Return the context of a try of the operator in a DAG, as far as Airflow's listener asks for it."""
    dag = operator.dag if operator.has_dag() else DAG("dag", schedule=None)
    operator.dag = dag
    hour = int(run_id.rpartition("__")[2])
    run = SimpleNamespace(
        dag_id="dag",
        run_id=run_id,
        logical_date=NOON.replace(hour=hour),
        run_after=NOON,
        data_interval_start=None,
        data_interval_end=None,
        start_date=NOON,
        end_date=None,
        clear_number=0,
        conf={},
        run_type="manual",
        state="running",
        consumed_asset_events=[],
    )
    made = context(run_id=run_id, ti_id=f"try-{attempt}", dag_run=run, dag=dag, task=operator)
    ti = made["ti"]
    ti.try_number, ti.task, ti.start_date, ti.max_tries = attempt, operator, NOON, 3
    ti.get_template_context = lambda: made
    return made


def tell(listener: OpenLineageListener, event: str, made: dict[str, Any]) -> None:
    getattr(listener, f"on_task_instance_{event}")(None, made["ti"])


def lineage_of(config: HaConfig, job_id: str = "flights", run: int = 1) -> dict[str, str]:
    """Return what the graph of a run has for OpenLineage."""
    with HaClient.open(config) as client:
        job = client.job(job_id)
        view = job.snapshot().run
        assert view is not None
        assert view.run.number == run
        return job.graph_of(view.run).lineage


@pytest.fixture
def running(source: Job, coordinator: Coordinator) -> Job:  # noqa: F811
    """Job *flights*, whose leader has a checkpoint that tells what is read and written."""
    submit(coordinator, source.paths)
    first = source.checkpoints.load(source.checkpoints.pointer(1))
    entry = BatchEntry(
        batch=9,
        offsets='v1\n{}\n{"logOffset":0}\n{"orders":{"0":17}}',
        sources={"0": ('{"path":"file:///data/in/day=1/a.json","timestamp":1,"batchId":9}',)},
    )
    sink = QuerySink(kind=SinkKind.OTHER, format="delta", table="s3://lake/tables/stats")
    queries = {QUERY: first.queries[QUERY].model_copy(update={"sink": sink, "entries": (entry,)})}
    for number, parts in ((2, queries), (3, {QUERY: queries[QUERY].model_copy(update={"entries": ()})})):
        made = first.model_copy(update={"number": number, "queries": parts, "pin": first.pin})
        source.checkpoints.add(source.leadership, made)
    return source
