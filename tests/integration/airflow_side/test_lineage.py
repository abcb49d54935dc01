"""OpenLineage: what the provider's listener sends of a task, and what a driver's conf gets; a real receiver."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest
from airflow.sdk import DAG

from airflow_provider_ha.checkpoints.connectors.datasets import DatasetName
from airflow_provider_ha.checkpoints.model import BatchEntry, QuerySink, SinkKind
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.control.administration.tree import read_tree, walk
from airflow_provider_ha.control.client import HaClient
from airflow_provider_ha.control.job.context import JobContext
from airflow_provider_ha.control.job_client import JobClient
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.paths import ClusterPaths, JobPaths
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.snapshot import read_snapshot
from airflow_provider_ha.operators import _lineage_conf
from airflow_provider_ha.operators.follow import SparkHaFollowOperator
from airflow_provider_ha.operators.restore import SparkHaRestoreOperator
from airflow_provider_ha.operators.submit import SparkHaSubmitOperator
from airflow_provider_ha.testing.waiting import wait_until
from tests.integration.airflow_side.task_runner import deferral
from tests.integration.conftest import copy, environment, source  # noqa: F401  # fixtures
from tests.support.checkpoints.checkpoint_helpers import Job
from tests.support.clusters import submit_helpers as helpers
from tests.support.clusters.airflow_helpers import context, storage_path
from tests.support.clusters.jobs_helpers import submit
from tests.support.lineage_receiver import LineageReceiver, receiving
from tests.support.spark.recorded_job import QUERY


openlineage = pytest.importorskip("airflow.providers.openlineage")

from airflow.providers.openlineage import conf as provider_conf  # noqa: E402
from airflow.providers.openlineage.plugins.listener import OpenLineageListener, get_openlineage_listener  # noqa: E402
from airflow.providers.openlineage.plugins.macros import lineage_root_run_id, lineage_run_id  # noqa: E402


pytestmark = [pytest.mark.usefixtures("airflow_connection", "opened"), pytest.mark.timeout(300)]
NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
SCHEMAS = Path(__file__).parents[3] / "docs" / "reference" / "openlineage" / "1-0-0"
API_KEY = "key-of-the-lineage-server"
Submitting = Callable[..., SparkHaSubmitOperator]


def forget_configuration() -> None:
    """The provider reads Airflow's configuration once per process."""
    for each in vars(provider_conf).values():
        if hasattr(each, "cache_clear"):
            each.cache_clear()
    get_openlineage_listener.cache_clear()


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
        return SparkHaSubmitOperator(
            task_id="task",
            job_id="flights",
            application=application,
            env={"STAND_IN": mode},
            poll_interval=0.2,
            restart_delay=0.05,
            restart_in_place=False,
            **kwargs,
        )

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


def stored(config: HaConfig) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(storage_path(config).rglob("*")) if path.is_file())


# What a driver's conf gets.


def test_by_default_a_job_gets_nothing_and_nothing_is_sent(
    submitting: Submitting, config: HaConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    forget_configuration()
    operator = submitting()

    deferral(operator, in_a_dag(operator))

    assert lineage_of(config) == {}
    assert "lineage" not in capsys.readouterr().out.lower()


def test_where_airflow_sends_events_a_driver_gets_nothing_that_is_not_asked_for(
    submitting: Submitting, config: HaConfig, receiver: LineageReceiver
) -> None:
    operator = submitting()
    made = in_a_dag(operator)

    tell(get_openlineage_listener(), "running", made)
    deferral(operator, made)

    assert lineage_of(config) == {}
    assert {each["eventType"] for each in receiver.of("dag.task")} == {"START"}, "the receiver works"


@pytest.mark.parametrize("by_configuration", [False, True])
def test_the_task_is_the_parent_of_its_driver_where_that_is_asked_for(
    submitting: Submitting,
    config: HaConfig,
    receiver: LineageReceiver,
    monkeypatch: pytest.MonkeyPatch,
    *,
    by_configuration: bool,
) -> None:
    if by_configuration:
        monkeypatch.setenv("AIRFLOW__OPENLINEAGE__SPARK_INJECT_PARENT_JOB_INFO", "True")
        monkeypatch.setenv("AIRFLOW__OPENLINEAGE__SPARK_INJECT_TRANSPORT_INFO", "True")
        operator = submitting()
    else:
        operator = submitting(openlineage_inject_parent_job_info=True, openlineage_inject_transport_info=True)
    made = in_a_dag(operator)

    deferral(operator, made)

    lineage = lineage_of(config)
    assert (
        lineage.items()
        >= {
            "spark.openlineage.parentJobNamespace": "tests",
            "spark.openlineage.parentJobName": "dag.task",
            "spark.openlineage.parentRunId": lineage_run_id(made["ti"]),
            "spark.openlineage.rootParentRunId": lineage_root_run_id(made["ti"]),
            "spark.openlineage.rootParentJobName": "dag",
            "spark.openlineage.transport.type": "http",
            "spark.openlineage.transport.url": receiver.url,
        }.items()
    )


@pytest.mark.usefixtures("receiver")
def test_a_parent_that_the_user_set_stays(submitting: Submitting, config: HaConfig) -> None:
    own = {"spark.openlineage.parentRunId": "their-own"}
    operator = submitting(conf=own, openlineage_inject_parent_job_info=True)

    deferral(operator, in_a_dag(operator))

    assert lineage_of(config) == {}


@pytest.mark.usefixtures("receiver")
def test_a_retry_finds_its_run_again_although_it_has_another_run_id(submitting: Submitting, config: HaConfig) -> None:
    first, again = (submitting(openlineage_inject_parent_job_info=True) for _ in range(2))
    of_first, of_again = in_a_dag(first), in_a_dag(again, attempt=2)

    numbers = [deferral(first, of_first).trigger.number, deferral(again, of_again).trigger.number]

    assert lineage_run_id(of_first["ti"]) != lineage_run_id(of_again["ti"])
    assert numbers == [1, 1]
    assert lineage_of(config)["spark.openlineage.parentRunId"] == lineage_run_id(of_first["ti"])


@pytest.mark.long
@pytest.mark.usefixtures("receiver")
def test_a_new_dag_run_recovers_a_lost_job_which_keeps_the_parent_that_submitted_it(
    submitting: Submitting, config: HaConfig, coordinator: Coordinator, paths: JobPaths
) -> None:
    first, second = (submitting(mode="die", openlineage_inject_parent_job_info=True) for _ in range(2))
    of_first = in_a_dag(first)
    deferral(first, of_first)
    wait_until(lambda: read_snapshot(coordinator, paths).state is JobState.LOST, timeout=60, what="the loss")

    number = deferral(second, in_a_dag(second, run_id="manual__2")).trigger.number

    assert number == 1, "the graph is the same one, although its parent would be another one"
    assert lineage_of(config)["spark.openlineage.parentRunId"] == lineage_run_id(of_first["ti"])


def test_a_transport_with_a_key_is_left_out_and_the_log_says_so(
    submitting: Submitting,
    config: HaConfig,
    coordinator: Coordinator,
    cluster_paths: ClusterPaths,
    *,
    receiver: LineageReceiver,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    keyed = receiver.transport | {"auth": {"type": "api_key", "api_key": API_KEY}}
    monkeypatch.setenv("AIRFLOW__OPENLINEAGE__TRANSPORT", json.dumps(keyed))
    forget_configuration()
    operator = submitting(openlineage_inject_parent_job_info=True, openlineage_inject_transport_info=True)
    made = in_a_dag(operator)

    deferral(operator, made)

    lineage = lineage_of(config)
    assert not any("transport" in key for key in lineage)
    assert "spark.openlineage.parentRunId" in lineage
    said = capsys.readouterr().out
    assert "spark.openlineage.transport.auth.apiKey" in said
    assert "spark-defaults.conf" in said
    tree = read_tree(coordinator, cluster_paths.base)  # the root holds clusters of other tests, some with an ACL
    assert tree is not None
    znodes = b"".join(coordinator.get(node.path).data for node in walk(tree))
    for told in (stored(config), znodes, said.encode(), json.dumps(made["ti"].xcom).encode()):
        assert API_KEY.encode() not in told


def test_without_the_provider_the_job_runs_and_the_log_says_once_what_to_install(
    submitting: Submitting, config: HaConfig, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [each for each in sys.modules if each.startswith("airflow.providers.openlineage")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "airflow.providers.openlineage", None)
    operator = submitting(openlineage_inject_parent_job_info=True, openlineage_inject_transport_info=True)

    deferral(operator, in_a_dag(operator))

    assert lineage_of(config) == {}
    [said] = [line for line in capsys.readouterr().out.splitlines() if "OpenLineage" in line]
    assert "airflow-provider-ha[openlineage]" in said


# What the listener sends.


@pytest.fixture
def restoring(source: Job, copy: JobContext) -> SparkHaRestoreOperator:  # noqa: F811
    """A restore of checkpoint 1 of job *flights* as *copy*."""
    del source
    del copy
    return SparkHaRestoreOperator(
        task_id="task",
        job_id="copy",
        source_job="flights",
        start_from="checkpoint-1",
        env={"STAND_IN": "wait", "TOKEN": API_KEY},
        openlineage_inject_parent_job_info=True,
        poll_interval=0.2,
    )


def test_the_events_of_a_restore_name_what_it_started_from(
    restoring: SparkHaRestoreOperator, config: HaConfig, receiver: LineageReceiver
) -> None:
    made = in_a_dag(restoring)
    listener = get_openlineage_listener()

    tell(listener, "running", made)
    deferral(restoring, made)
    tell(listener, "success", made)

    start, complete = (receiver.of("dag.task", kind) for kind in ("START", "COMPLETE"))
    requested, known = start[0]["run"]["facets"]["sparkHa_run"], complete[0]["run"]["facets"]["sparkHa_run"]
    asked = {"jobId": "copy", "requestedStart": "checkpoint-1", "requestedSourceJob": "flights"}
    assert asked.items() <= requested.items()
    assert "run" not in requested
    assert {
        **asked,
        "cluster": config.cluster_id,
        "run": 1,
        "attempt": 1,
        "start": {
            "kind": "checkpoint",
            "sourceJob": "flights",
            "source": "checkpoint-1",
            "verdict": "SAFE",
            "batchesExecutedAgain": {},
        },
    }.items() <= known.items()
    assert complete[0]["job"]["facets"]["sparkHa_job"]["processingType"] == "STREAMING"
    assert {start[0]["run"]["runId"], complete[0]["run"]["runId"]} == {
        lineage_of(config, "copy")["spark.openlineage.parentRunId"]
    }, "the driver's parent is the run of these events"
    assert API_KEY not in json.dumps(receiver.events)


def test_facets_are_what_their_schemas_say(restoring: SparkHaRestoreOperator, receiver: LineageReceiver) -> None:
    made = in_a_dag(restoring)
    listener = get_openlineage_listener()
    tell(listener, "running", made)
    deferral(restoring, made)
    tell(listener, "success", made)

    for event in receiver.of("dag.task", "START", "COMPLETE"):
        for name, facets in (("SparkHaRunFacet", event["run"]["facets"]), ("SparkHaJobFacet", event["job"]["facets"])):
            schema = json.loads((SCHEMAS / f"{name}.json").read_text())
            [key] = schema["properties"]
            facet = facets[key]
            assert facet["_schemaURL"] == f"{schema['$id']}#/$defs/{name}"
            assert "airflow-provider-ha" in facet["_producer"]
            own = schema["$defs"][name]["allOf"][1] | {"additionalProperties": False}
            jsonschema.validate({key: value for key, value in facet.items() if key[0] != "_"}, own)


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


def test_what_is_read_and_written_comes_from_the_newest_checkpoints(running: Job, config: HaConfig) -> None:
    with HaClient.open(config) as client:
        known = client.job("flights").lineage(1)

    assert (known.checkpoint, known.epoch, known.start.kind.value) == (3, running.leadership.epoch, "fresh")
    assert known.inputs == (DatasetName("file", "/data/in"),), "no brokers are known, so the topic has no name"
    assert known.outputs == (DatasetName("s3://lake", "tables/stats"),)


@pytest.mark.usefixtures("running")
def test_a_task_that_waits_tells_at_once_what_its_run_reads_and_writes(receiver: LineageReceiver) -> None:
    pytest.importorskip("airflow.providers.openlineage.api", reason="of newer releases of the provider")
    operator = SparkHaFollowOperator(task_id="task", job_id="flights", poll_interval=0.2)

    deferral(operator, in_a_dag(operator))

    [event] = receiver.of("dag.task")
    assert event["eventType"] == "RUNNING"
    assert [(each["namespace"], each["name"]) for each in event["inputs"]] == [("file", "/data/in")]
    assert [(each["namespace"], each["name"]) for each in event["outputs"]] == [("s3://lake", "tables/stats")]
    assert event["run"]["facets"]["sparkHa_run"]["checkpoint"] == 3
    assert event["job"]["facets"]["sparkHa_job"]["jobId"] == "flights"


@pytest.mark.usefixtures("running", "receiver")
def test_a_lineage_that_cannot_be_read_does_not_fail_the_task(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def unreadable(job: JobClient, run: int) -> None:
        raise ValueError("a checkpoint of another world")

    monkeypatch.setattr(JobClient, "lineage", unreadable)
    operator = SparkHaFollowOperator(task_id="task", job_id="flights", poll_interval=0.2)

    assert deferral(operator, in_a_dag(operator)).trigger.number == 1
    assert "OpenLineage is not told of run 1 of job flights" in capsys.readouterr().out


SECRET = "k3y-of-the-receiver"
INVALID = [
    f'{{"type": "http", "url": "http://lineage:5000", "auth": {{"type": "api_key", "apiKey": "{SECRET}"}}',
    f'["http", "{SECRET}"]',
    SECRET,
]


@pytest.fixture(params=INVALID)
def invalid_transport(
    request: pytest.FixtureRequest, receiver: LineageReceiver, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """A transport in Airflow's configuration that is no JSON, or no object."""
    del receiver
    monkeypatch.setenv("AIRFLOW__OPENLINEAGE__TRANSPORT", request.param)
    forget_configuration()
    yield request.param
    forget_configuration()


@pytest.mark.usefixtures("running", "invalid_transport")
def test_a_transport_that_cannot_be_read_does_not_fail_the_task_and_the_log_says_so(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    operator = SparkHaFollowOperator(task_id="task", job_id="flights", poll_interval=0.2)

    deferred = deferral(operator, in_a_dag(operator))

    [said] = [line for line in caplog.messages if "OpenLineage" in line]
    assert deferred.trigger.number == 1
    assert "[openlineage]" in said
    assert SECRET not in caplog.text + capsys.readouterr().out


@pytest.mark.usefixtures("running", "invalid_transport")
def test_a_transport_that_cannot_be_read_does_not_show_a_run_that_finished_as_failed() -> None:
    operator = SparkHaFollowOperator(task_id="task", job_id="flights", poll_interval=0.2)
    event = {
        "status": "ended",
        "job_id": "flights",
        "run": 1,
        "state": "FINISHED",
        "epoch": 1,
        "checkpoint": 3,
        "reason": "",
    }

    result = operator.execute_complete(in_a_dag(operator), event)

    assert (result["run"], result["state"]) == (1, "FINISHED")


@pytest.mark.usefixtures("receiver")
def test_an_invalid_boolean_does_not_keep_the_job_from_starting_and_the_log_names_it(
    submitting: Submitting, config: HaConfig, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AIRFLOW__OPENLINEAGE__SPARK_INJECT_PARENT_JOB_INFO", SECRET)  # of another line
    operator = submitting(openlineage_inject_transport_info=True)

    deferral(operator, in_a_dag(operator))

    assert lineage_of(config)["spark.openlineage.transport.type"] == "http", "the other one is injected all the same"
    said = capsys.readouterr().out
    assert "[openlineage] spark_inject_parent_job_info" in said
    assert SECRET not in said


def test_a_provider_that_does_not_fit_does_not_keep_the_job_from_starting(
    submitting: Submitting, config: HaConfig, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> None:
        raise AttributeError("a name of another release")

    monkeypatch.setattr(_lineage_conf, "_injectors", broken)
    operator = submitting(openlineage_inject_parent_job_info=True)

    deferral(operator, in_a_dag(operator))

    assert lineage_of(config) == {}
    assert "could not be injected: AttributeError" in capsys.readouterr().out


@pytest.mark.usefixtures("running", "receiver")
def test_a_transport_that_the_client_refuses_is_not_quoted_in_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(*_: Any) -> None:
        raise ValueError(f"no such transport: {{'type': 'htp', 'auth': {{'apiKey': '{SECRET}'}}}}")

    monkeypatch.setattr(SparkHaFollowOperator, "_send_running", refused)
    operator = SparkHaFollowOperator(task_id="task", job_id="flights", poll_interval=0.2)

    deferral(operator, in_a_dag(operator))

    said = capsys.readouterr().out
    assert "OpenLineage is not told of run 1 of job flights: ValueError. Correct [openlineage]" in said
    assert SECRET not in caplog.text + said


@pytest.mark.usefixtures("running", "receiver")
def test_an_event_that_cannot_be_made_does_not_fail_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: Any) -> None:
        raise TypeError("a facet of another release")

    monkeypatch.setattr(SparkHaFollowOperator, "_operator_lineage", broken)
    operator = SparkHaFollowOperator(task_id="task", job_id="flights", poll_interval=0.2)

    assert deferral(operator, in_a_dag(operator)).trigger.number == 1


def test_credentials_in_a_start_are_hidden() -> None:
    operator = SparkHaSubmitOperator(
        task_id="task",
        job_id="flights",
        application="/opt/app.py",
        start_from={"stats": f"s3a://user:{API_KEY}@lake/checkpoints/stats"},
    )

    told = operator.get_openlineage_facets_on_start()

    assert told.run_facets["sparkHa_run"].requestedStart == "stats=s3a://user:***@lake/checkpoints/stats"
