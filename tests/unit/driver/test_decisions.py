"""What the driver decides without Spark: admission, what is abandoned, when a stop is harmless, what is refused."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace

import pytest

from airflow_provider_ha.checkpoints.model import QuerySink, SinkKind
from airflow_provider_ha.checkpoints.plan_model import QueryPlan, RestorePlan, Verdict
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.spark.places import StorageAccess
from airflow_provider_ha.driver.checkpointing.start_point import check_facts
from airflow_provider_ha.driver.members.driver_session import check_admission
from airflow_provider_ha.driver.operations_loop import abandoned
from airflow_provider_ha.driver.queries.query_stop import QueryActivity, classify
from airflow_provider_ha.driver.queries.writer_notes import WriterNotes, check_options, refuse_unfenced, sink_spec
from airflow_provider_ha.driver.script import Lifecycle
from airflow_provider_ha.driver.spark_conf import (
    CHECKPOINT_LOCATION,
    LOG_LEVEL,
    MIN_BATCHES,
    PROVIDER,
    conf_of_script,
    prepare_conf,
)
from airflow_provider_ha.errors import ApplicationRefusedError, JobStateError, RestoreRefusedError
from airflow_provider_ha.jobs.job_graph import Blob, GraphPointer
from airflow_provider_ha.jobs.model import (
    JobState,
    Operation,
    OperationKind,
    OperationState,
    Run,
    RunResult,
    StartPoint,
)
from airflow_provider_ha.jobs.runs.run_store import RunView, SubmissionView
from airflow_provider_ha.jobs.runs.submissions import Submission


NOW = datetime(2024, 1, 1, tzinfo=timezone.utc)
GRAPH = Blob(sha256="0" * 64, size=1)


def view(*, attempts: int = 1, result: RunResult | None = None) -> RunView:
    run = Run(number=2, graph=GRAPH, start=StartPoint(), request_id="r", created_at=NOW)
    submissions = tuple(
        SubmissionView(Submission(attempt=k, submission_id=str(k), requested_by="test", engine="local", created_at=NOW))
        for k in range(1, attempts + 1)
    )
    return RunView(run, result, submissions)


def operation(kind: OperationKind, *, run: int = 2, epoch: int | None = None) -> Operation:
    state = OperationState.REQUESTED if epoch is None else OperationState.RUNNING
    return Operation(
        operation_id="o", operation=kind, run=run, requested_by="test", requested_at=NOW, state=state, epoch=epoch
    )


def test_newest_submission_of_a_live_run_with_the_graph_pointer_is_admitted() -> None:
    check_admission(view(attempts=2), GraphPointer(graph=GRAPH, run=2), 2, "2")


@pytest.mark.parametrize(
    ("seen", "pointer", "reason"),
    [
        (view(result=RunResult(state=JobState.FINISHED, epoch=1, at=NOW)), 2, "never run again"),
        (view(attempts=2), 2, "not the newest"),
        (view(), 3, "graph pointer"),
        (view(), None, "graph pointer"),
    ],
)
def test_submission_that_may_not_lead_is_refused(seen: RunView, pointer: int | None, reason: str) -> None:
    with pytest.raises(JobStateError, match=reason):
        check_admission(seen, GraphPointer(graph=GRAPH, run=pointer) if pointer else None, 1, "1")


def test_driver_that_was_started_into_an_empty_tree_does_not_lead_the_rebuilt_run() -> None:
    with pytest.raises(JobStateError, match="another submission than that of this driver"):
        check_admission(view(), GraphPointer(graph=GRAPH, run=2), 1, "an-intruder")


@pytest.mark.parametrize(
    ("asked", "gone"),
    [
        (operation(OperationKind.SAVEPOINT), False),
        (operation(OperationKind.SAVEPOINT, epoch=4), True),
        (operation(OperationKind.STOP, epoch=4), False),
        (operation(OperationKind.CANCEL, epoch=4), False),
        (operation(OperationKind.CANCEL_WITH_SAVEPOINT, epoch=4), False),
        (operation(OperationKind.CHECKPOINT, epoch=4), False),
        (operation(OperationKind.STOP, run=1), True),
    ],
)
def test_half_done_savepoints_and_operations_of_other_runs_are_abandoned(asked: Operation, gone: bool) -> None:
    assert bool(abandoned(asked, run=2, epoch=5)) is gone


@pytest.mark.parametrize(
    ("frames", "moment"),
    [
        (["X.addBatch(X.scala)", "MicroBatchExecution.runBatch(M.scala:1)"], QueryActivity.EXECUTING),
        (
            ["SQLExecution$.withNewExecutionId(S.scala)", "MicroBatchExecution.runBatch(M.scala)"],
            QueryActivity.EXECUTING,
        ),
        (["MicroBatchExecution.constructNextBatch(M.scala)"], QueryActivity.PLANNING),
        (["MicroBatchExecution.runBatch(M.scala)"], QueryActivity.PLANNING),
        (["Object.wait", "ProcessingTimeExecutor.waitTillTime(T.scala)"], QueryActivity.WAITING),
        (["java.lang.Thread.sleep(Native)", "MicroBatchExecution.executeOneBatch(M.scala)"], QueryActivity.POLLING),
    ],
)
def test_state_is_only_changed_where_spark_does_not_interrupt_itself(frames: list[str], moment: QueryActivity) -> None:
    assert classify(frames) is moment


def test_query_that_would_slip_out_of_our_hands_is_refused() -> None:
    with pytest.raises(ApplicationRefusedError, match="asynchronously"):
        check_options("q", WriterNotes(name="q", options={"asyncprogresstrackingenabled": "TRUE"}))


class Properties:
    """The system properties of a JVM: where spark-submit has put the user's conf."""

    def __init__(self, **values: str) -> None:
        self.values = values
        self.java = SimpleNamespace(lang=SimpleNamespace(System=self))

    def getProperty(self, name: str) -> str | None:  # noqa: N802  # Java's name
        return self.values.get(name)

    def setProperty(self, name: str, value: str) -> None:  # noqa: N802  # Java's name
        self.values[name] = value


def test_conf_of_the_user_is_never_replaced() -> None:
    properties = Properties(**{MIN_BATCHES: "20", PROVIDER: "org.example.Provider"})

    prepare_conf(properties, "file:///managed", 100)

    assert properties.values == {
        MIN_BATCHES: "20",
        PROVIDER: "org.example.Provider",
        CHECKPOINT_LOCATION: "file:///managed",
    }


def logging_by(kind: str, source: str) -> Properties:
    """A JVM whose log4j uses a configuration of this class, read from there."""
    used = SimpleNamespace(
        getClass=lambda: SimpleNamespace(getName=lambda: kind),
        getConfigurationSource=lambda: SimpleNamespace(getLocation=lambda: source),
    )
    manager = SimpleNamespace(getContext=lambda _: SimpleNamespace(getConfiguration=lambda: used))
    jvm = Properties()
    jvm.org = SimpleNamespace(  # type: ignore[attr-defined]
        apache=SimpleNamespace(logging=SimpleNamespace(log4j=SimpleNamespace(LogManager=manager)))
    )
    return jvm


LOG4J = "org.apache.logging.log4j.core.config"


@pytest.mark.parametrize(
    ("kind", "source"),
    [
        (f"{LOG4J}.DefaultConfiguration", "None"),
        (
            f"{LOG4J}.properties.PropertiesConfiguration",
            "jar:file:/spark.jar!/org/apache/spark/log4j2-defaults.properties",
        ),
    ],
)
def test_level_of_spark_is_warn_where_nobody_has_chosen_one(kind: str, source: str) -> None:
    jvm = logging_by(kind, source)

    prepare_conf(jvm, "file:///managed", 100)

    assert jvm.values[LOG_LEVEL] == "WARN"


def test_level_of_the_users_conf_is_left_alone() -> None:
    jvm = logging_by(f"{LOG4J}.DefaultConfiguration", "None")
    jvm.values[LOG_LEVEL] = "INFO"

    prepare_conf(jvm, "file:///managed", 100)

    assert jvm.values[LOG_LEVEL] == "INFO"


def test_level_of_an_own_log4j_configuration_is_left_alone() -> None:
    jvm = logging_by(f"{LOG4J}.properties.PropertiesConfiguration", "/opt/spark/conf/log4j2.properties")

    prepare_conf(jvm, "file:///managed", 100)

    assert LOG_LEVEL not in jvm.values


def test_file_sink_is_known_by_its_path_and_refused_where_its_log_cannot_be_read() -> None:
    local = sink_spec("q", WriterNotes(options={"path": "file:///data/out"}), "parquet")
    assert (local.kind, local.path) == (SinkKind.FILE, "/data/out")
    stored = sink_spec("q", WriterNotes(options={"path": "s3a://bucket//out/"}), "parquet")
    assert (stored.kind, stored.path) == (SinkKind.FILE, "s3://bucket/out")
    with pytest.raises(ApplicationRefusedError, match="abfs://"):
        sink_spec("q", WriterNotes(sink="JSON", options={"path": "abfs://box@account/out"}), "parquet")


@pytest.mark.parametrize(
    ("planned", "set_aside", "refused"),
    [(3, {}, False), (2, {}, True), (4, {}, True), (4, {4: "0" * 64}, False), (5, {4: "0" * 64, 5: "0" * 64}, False)],
)
def test_restore_is_refused_when_an_output_changed_since_the_plan(
    tmp_path: Path, planned: int, set_aside: dict[int, str], refused: bool
) -> None:
    (tmp_path / "_spark_metadata").mkdir()
    for batch in range(4):
        (tmp_path / "_spark_metadata" / str(batch)).write_text("v1")
    sink = QuerySink(kind=SinkKind.FILE, path=str(tmp_path), max_batch=planned)
    plan = RestorePlan(
        job_id="j",
        source_job="j",
        source="checkpoint",
        source_id="1",
        directory="d",
        verdict=Verdict.SAFE,
        queries={"q": QueryPlan(batch=1, sink=sink, set_aside=set_aside)},
        age_seconds=0,
        created_at=NOW,
    )
    if refused:
        with pytest.raises(RestoreRefusedError):
            check_facts(plan, LocalTree(tmp_path), StorageAccess())
    else:
        check_facts(plan, LocalTree(tmp_path), StorageAccess())


def test_only_one_ends_the_run() -> None:
    lifecycle = Lifecycle()
    assert [lifecycle.claim_end(), lifecycle.claim_end()] == [True, False]


def test_end_that_was_not_brought_about_can_be_claimed_again() -> None:
    lifecycle = Lifecycle()
    lifecycle.claim_end()
    lifecycle.give_end_back()
    assert lifecycle.claim_end()


def test_a_delta_table_is_known_by_its_directory_where_that_can_be_read() -> None:
    places = {
        "file:///data/rows": "/data/rows",
        "/data/rows": "/data/rows",
        "s3a://bucket/rows/": "s3://bucket/rows",
        "hdfs://names:8020/rows": "hdfs://names:8020/rows",
        "abfss://place/rows": None,
        None: None,
    }
    for path, table in places.items():
        options = {} if path is None else {"path": path}

        assert sink_spec("q", WriterNotes(sink="Delta", options=options), "parquet").table == table


@pytest.mark.parametrize("alive", [True, False])
def test_conf_of_a_script_whose_jvm_is_gone_is_none(monkeypatch: pytest.MonkeyPatch, alive: bool) -> None:
    from pyspark import SparkContext

    def all_of_it() -> list[tuple[str, str]]:
        if not alive:
            raise ConnectionRefusedError("py4j")
        return [("spark.master", "local[2]")]

    context = SimpleNamespace(getConf=lambda: SimpleNamespace(getAll=all_of_it))
    monkeypatch.setattr(SparkContext, "_active_spark_context", context)

    assert conf_of_script() == ({"spark.master": "local[2]"} if alive else {})


@pytest.mark.parametrize(
    ("table", "conf", "refused"),
    [
        ("s3a://bucket/table", {}, True),
        ("s3a://bucket/table", {"spark.delta.logStore.class": "io.delta.storage.S3SingleDriverLogStore"}, True),
        ("s3a://bucket/table", {"spark.delta.logStore.s3.impl": "io.delta.storage.S3DynamoDBLogStore"}, True),
        ("s3a://bucket/table", {"spark.delta.logStore.s3a.impl": "io.delta.storage.S3DynamoDBLogStore"}, False),
        ("hdfs://names/table", {}, False),
        ("/data/table", {}, False),
    ],
)
def test_a_delta_table_on_s3_needs_a_log_store_for_two_drivers(table: str, conf: dict[str, str], refused: bool) -> None:
    noted = WriterNotes(sink="delta", options={"path": table})

    with pytest.raises(ApplicationRefusedError, match="S3DynamoDBLogStore") if refused else nullcontext():
        refuse_unfenced("q", noted, "parquet", conf.get)
