"""OpenLineage: what the provider's listener sends of a task, and what a driver's conf gets; a real receiver."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import jsonschema
import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.checkpoints.sources.source_registry import DatasetName
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.paths import ClusterPaths, JobPaths
from airflow_provider_ha.fleet.znode_tree import read_tree, walk
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.observe import read_status
from airflow_provider_ha.operators.follow import SparkHaFollowOperator
from airflow_provider_ha.operators.restore import SparkHaRestoreOperator
from airflow_provider_ha.operators.submit import SparkHaSubmitOperator
from airflow_provider_ha.testing.waiting import wait_until
from tests.integration.airflow_side.lineage_tasks import (
    API_KEY,
    Submitting,
    forget_configuration,
    in_a_dag,
    lineage_of,
    receiver,  # noqa: F401  # a fixture
    running,  # noqa: F401  # a fixture
    submitting,  # noqa: F401  # a fixture
    tell,
)
from tests.integration.airflow_side.task_runner import deferral
from tests.integration.conftest import copy, environment, source  # noqa: F401  # fixtures
from tests.support.checkpoints.checkpoint_helpers import Job
from tests.support.clusters.airflow_helpers import storage_path
from tests.support.lineage_receiver import LineageReceiver


openlineage = pytest.importorskip("airflow.providers.openlineage")

from airflow.providers.openlineage.plugins.listener import get_openlineage_listener  # noqa: E402
from airflow.providers.openlineage.plugins.macros import lineage_root_run_id, lineage_run_id  # noqa: E402


pytestmark = [pytest.mark.usefixtures("airflow_connection", "opened"), pytest.mark.timeout(300)]
SCHEMAS = Path(__file__).parents[3] / "docs" / "reference" / "openlineage" / "1-0-0"


def stored(config: HaConfig) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(storage_path(config).rglob("*")) if path.is_file())


# What a driver's conf gets.


def test_by_default_a_job_gets_nothing_and_nothing_is_sent(
    submitting: Submitting,  # noqa: F811
    config: HaConfig,
    capsys: pytest.CaptureFixture[str],
) -> None:
    forget_configuration()
    operator = submitting()

    deferral(operator, in_a_dag(operator))

    assert lineage_of(config) == {}
    assert "lineage" not in "".join(capsys.readouterr()).lower()


def test_a_driver_receives_airflow_s_lineage_options_only_on_request(
    submitting: Submitting,  # noqa: F811
    config: HaConfig,
    receiver: LineageReceiver,  # noqa: F811
) -> None:
    operator = submitting()
    made = in_a_dag(operator)

    tell(get_openlineage_listener(), "running", made)
    deferral(operator, made)

    assert lineage_of(config) == {}
    assert {each["eventType"] for each in receiver.of("dag.task")} == {"START"}, "the receiver works"


@pytest.mark.usefixtures("injected")
def test_the_task_is_the_parent_of_its_driver_where_the_configuration_enables_it(
    submitting: Submitting,  # noqa: F811
    config: HaConfig,
    receiver: LineageReceiver,  # noqa: F811
) -> None:
    operator = submitting()
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


@pytest.mark.usefixtures("receiver", "injected")
def test_a_parent_that_the_user_set_stays(submitting: Submitting, config: HaConfig) -> None:  # noqa: F811
    own = {"spark.openlineage.parentRunId": "their-own"}
    operator = submitting(conf=own)

    deferral(operator, in_a_dag(operator))

    assert not any("parent" in key.lower() for key in lineage_of(config))


@pytest.mark.usefixtures("receiver", "injected")
def test_a_retry_finds_its_run_again_although_it_has_another_run_id(submitting: Submitting, config: HaConfig) -> None:  # noqa: F811
    first, again = (submitting() for _ in range(2))
    of_first, of_again = in_a_dag(first), in_a_dag(again, attempt=2)

    numbers = [deferral(first, of_first).trigger.number, deferral(again, of_again).trigger.number]

    assert lineage_run_id(of_first["ti"]) != lineage_run_id(of_again["ti"])
    assert numbers == [1, 1]
    assert lineage_of(config)["spark.openlineage.parentRunId"] == lineage_run_id(of_first["ti"])


@pytest.mark.long
@pytest.mark.usefixtures("receiver", "injected")
def test_a_new_dag_run_recovers_a_lost_job_which_keeps_the_parent_that_submitted_it(
    submitting: Submitting,  # noqa: F811
    config: HaConfig,
    coordinator: Coordinator,
    paths: JobPaths,
) -> None:
    first, second = (submitting(mode="die") for _ in range(2))
    of_first = in_a_dag(first)
    deferral(first, of_first)
    wait_until(lambda: read_status(coordinator, paths).state is JobState.LOST, timeout=60, what="the loss")

    number = deferral(second, in_a_dag(second, run_id="manual__2")).trigger.number

    assert number == 1, "the graph is the same one, although its parent would be another one"
    assert lineage_of(config)["spark.openlineage.parentRunId"] == lineage_run_id(of_first["ti"])


@pytest.mark.usefixtures("injected")
def test_a_transport_with_a_key_is_left_out_and_the_log_says_so(
    submitting: Submitting,  # noqa: F811
    config: HaConfig,
    coordinator: Coordinator,
    cluster_paths: ClusterPaths,
    *,
    receiver: LineageReceiver,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    keyed = receiver.transport | {"auth": {"type": "api_key", "api_key": API_KEY}}
    monkeypatch.setenv("AIRFLOW__OPENLINEAGE__TRANSPORT", json.dumps(keyed))
    forget_configuration()
    operator = submitting()
    made = in_a_dag(operator)

    deferral(operator, made)

    lineage = lineage_of(config)
    assert not any("transport" in key for key in lineage)
    assert "spark.openlineage.parentRunId" in lineage
    said = "".join(capsys.readouterr())
    assert "spark.openlineage.transport.auth.apiKey" in said
    assert "spark-defaults.conf" in said
    tree = read_tree(coordinator, cluster_paths.base)  # the root holds clusters of other tests, some with an ACL
    assert tree is not None
    znodes = b"".join(coordinator.get(node.path).data for node in walk(tree))
    for told in (stored(config), znodes, said.encode(), json.dumps(made["ti"].xcom).encode()):
        assert API_KEY.encode() not in told


@pytest.mark.usefixtures("injected")
def test_without_the_provider_the_job_runs_and_the_log_names_the_extra_once(
    submitting: Submitting,  # noqa: F811
    config: HaConfig,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in [each for each in sys.modules if each.startswith("airflow.providers.openlineage")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "airflow.providers.openlineage", None)
    operator = submitting()

    deferral(operator, in_a_dag(operator))

    assert lineage_of(config) == {}
    [said] = [line for line in "".join(capsys.readouterr()).splitlines() if "OpenLineage" in line]
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
    )


@pytest.mark.usefixtures("injected")
def test_the_events_of_a_restore_name_what_it_started_from(
    restoring: SparkHaRestoreOperator,
    config: HaConfig,
    receiver: LineageReceiver,  # noqa: F811
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


def test_facets_match_their_schemas(restoring: SparkHaRestoreOperator, receiver: LineageReceiver) -> None:  # noqa: F811
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


def test_what_is_read_and_written_comes_from_the_newest_checkpoints(running: Job, config: HaConfig) -> None:  # noqa: F811
    with HaClient.open(config) as client:
        known = client.job("flights").lineage(1)

    assert (known.checkpoint, known.epoch, known.start.kind.value) == (3, running.leadership.epoch, "fresh")
    assert known.inputs == (DatasetName("file", "/data/in"),), "no brokers are known, so the topic has no name"
    assert known.outputs == (DatasetName("s3://lake", "tables/stats"),)


@pytest.mark.usefixtures("running")
def test_a_waiting_task_reports_the_inputs_and_outputs_of_its_run_immediately(receiver: LineageReceiver) -> None:  # noqa: F811
    pytest.importorskip("airflow.providers.openlineage.api", reason="of newer releases of the provider")
    operator = SparkHaFollowOperator(task_id="task", job_id="flights")

    deferral(operator, in_a_dag(operator))

    [event] = receiver.of("dag.task")
    assert event["eventType"] == "RUNNING"
    assert [(each["namespace"], each["name"]) for each in event["inputs"]] == [("file", "/data/in")]
    assert [(each["namespace"], each["name"]) for each in event["outputs"]] == [("s3://lake", "tables/stats")]
    assert event["run"]["facets"]["sparkHa_run"]["checkpoint"] == 3
    assert event["job"]["facets"]["sparkHa_job"]["jobId"] == "flights"


def test_credentials_in_a_start_are_hidden() -> None:
    operator = SparkHaSubmitOperator(
        task_id="task",
        job_id="flights",
        application="/opt/app.py",
        start_from={"stats": f"s3a://user:{API_KEY}@lake/checkpoints/stats"},
    )

    told = operator.get_openlineage_facets_on_start()

    assert told.run_facets["sparkHa_run"].requestedStart == "stats=s3a://user:***@lake/checkpoints/stats"
