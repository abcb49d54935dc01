"""Outputs of queries: claims, paths, and what they say about a start."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.model import QuerySink, SinkKind
from airflow_provider_ha.checkpoints.plan_model import QueryPlan, RestorePlan
from airflow_provider_ha.checkpoints.sinks import sink_registry
from airflow_provider_ha.checkpoints.sinks.table_sinks import DeltaLog
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator, Create, Delete
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.driver.queries.query_naming import StartLedger
from airflow_provider_ha.driver.queries.script_paths import is_relative, refuse_relative
from airflow_provider_ha.driver.queries.writer_notes import notes
from airflow_provider_ha.driver.script import Lifecycle
from airflow_provider_ha.errors import ApplicationRefusedError, OutcomeUnknownError, RestoreRefusedError
from airflow_provider_ha.jobs.model import JobState, OutputMode, RunResult
from airflow_provider_ha.jobs.runs.output_claims import OutputClaims
from tests.support.checkpoints.ledger_sink import LedgerSink
from tests.support.checkpoints.writer_helpers import writer_of
from tests.support.fake import FakeEnsemble
from tests.support.spark.started_queries import Started, commit, file_writer, plan_of, starter_of


def test_files_on_s3_are_refused_where_spark_does_not_create_them_exclusively(spark: Started, tmp_path: Path) -> None:
    starter = starter_of(spark, tmp_path, Lifecycle())

    with pytest.raises(ApplicationRefusedError, match=r"writes files to s3://bucket/out: .* not create .* exclusively"):
        starter.start(file_writer("q", tmp_path, "s3a://bucket/out"), None)

    assert spark.handles == []


def test_two_queries_with_one_output_are_refused(spark: Started, tmp_path: Path) -> None:
    starter = starter_of(spark, tmp_path, Lifecycle())
    starter.start(file_writer("first", tmp_path, f"{tmp_path}/out"), None)

    with pytest.raises(ApplicationRefusedError, match=r"/out, and so does query 'first' of this job"):
        starter.start(file_writer("second", tmp_path, f"file://{tmp_path}/./out/"), None)

    assert len(spark.handles) == 1


def test_an_output_is_claimed_before_the_query_starts(spark: Started, tmp_path: Path) -> None:
    class Claims:
        def claim(self, place: str, query: str) -> None:
            raise ApplicationRefusedError(f"{place} of {query} is another job's")

    lifecycle = Lifecycle()
    starter = starter_of(spark, tmp_path, lifecycle, claims=Claims())

    with pytest.raises(ApplicationRefusedError, match="out of q is another job's"):
        starter.start(file_writer("q", tmp_path, f"{tmp_path}/out"), None)

    assert spark.handles == []
    assert lifecycle.refusal is not None


def test_a_query_with_a_relative_output_is_refused_before_it_starts(spark: Started, tmp_path: Path) -> None:
    writer = writer_of("q", tmp_path)
    notes(writer).sink = "json"
    lifecycle = Lifecycle()

    with pytest.raises(ApplicationRefusedError, match="query 'q' writes to the relative path 'out'"):
        starter_of(spark, tmp_path, lifecycle).start(writer, "out")

    assert spark.handles == []
    assert lifecycle.refusal is not None


def test_where_a_query_writes_is_noted_before_it_is_started(spark: Started, tmp_path: Path) -> None:
    starter = starter_of(spark, tmp_path, Lifecycle(), plan_of("q", replay=1))
    noted: list[Any] = []
    spark.during_replay = lambda: noted.append(StartLedger(LocalTree(tmp_path)).before.sinks["q"].format)

    starter.start(writer_of("q", tmp_path), None)

    assert noted == ["noop"]


def a_table(directory: Path, query_id: str, version: int) -> Path:
    """Make a Delta table whose log says that the query with that id has written batch *version*."""
    log = directory / "_delta_log"
    log.mkdir(parents=True)
    entry = {"txn": {"appId": query_id, "version": version, "lastUpdated": 0}}
    (log / f"{0:020}.json").write_text(json.dumps(entry) + "\n")
    return directory


def table_plan(*, max_batch: int, query_id: str | None = None) -> RestorePlan:
    sink = QuerySink(kind=SinkKind.OTHER, format="delta", table="/somewhere", max_batch=max_batch)
    return plan_of("rows").model_copy(update={"queries": {"rows": QueryPlan(batch=2, sink=sink, query_id=query_id)}})


def test_a_table_says_what_it_has_of_a_query_by_its_id(spark: Started, tmp_path: Path) -> None:
    live = tmp_path / "live"
    commit(live / "rows")
    (live / "rows" / "metadata").write_text('{"id":"00000000-0000-4000-8000-000000000001"}')
    own = a_table(tmp_path / "own", "00000000-0000-4000-8000-000000000001", 7)
    other = a_table(tmp_path / "other", "other-id", 7)
    starter = starter_of(spark, live, Lifecycle())

    assert starter._in_table("rows", DeltaLog(own), LocalTree(live / "rows")) == 7
    assert starter._in_table("rows", DeltaLog(other), LocalTree(live / "rows")) == -1


def test_an_output_of_a_type_that_was_added_is_asked_what_it_has(
    spark: Started, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink_registry, "SINK_TYPES", (LedgerSink(), *sink_registry.SINK_TYPES))
    identity = "00000000-0000-4000-8000-000000000001"
    commit(tmp_path / "rows")
    (tmp_path / "rows" / "metadata").write_text(json.dumps({"id": identity}))
    (tmp_path / "ledger").write_text(json.dumps({identity: 1}))
    writer = writer_of("rows", tmp_path)
    writer._spark.conf.set("ledger.locked", "yes")
    notes(writer).sink, notes(writer).options["path"] = "ledger", str(tmp_path / "ledger")

    with pytest.raises(RestoreRefusedError, match="batches up to 1, but"):
        starter_of(spark, tmp_path, Lifecycle()).start(writer, None)

    assert spark.handles == []


def test_a_query_that_gets_a_fresh_id_is_asked_about_under_the_one_that_it_had(spark: Started, tmp_path: Path) -> None:
    """The plan knows up to where the table has its batches; the fresh id is made when it starts."""
    starter = starter_of(spark, tmp_path / "live", Lifecycle(), table_plan(max_batch=2, query_id="fresh"))

    assert starter._in_table("rows", DeltaLog(tmp_path / "unread"), LocalTree(tmp_path / "live" / "rows")) == 2


def test_a_table_that_cannot_be_read_leaves_what_the_plan_knew(
    spark: Started, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    live = tmp_path / "live"
    commit(live / "rows")
    (live / "rows" / "metadata").write_text('{"id":"00000000-0000-4000-8000-000000000001"}')
    table = a_table(tmp_path / "table", "00000000-0000-4000-8000-000000000001", 7)
    (table / "_delta_log" / f"{0:020}.json").write_text("{")
    starter = starter_of(spark, live, Lifecycle(), table_plan(max_batch=2, query_id="fresh"))

    assert starter._in_table("rows", DeltaLog(table), LocalTree(live / "rows")) == 2
    assert "query rows starts, but the content of its table is unknown" in caplog.text


class Log:
    """The connector of a file sink, which has written up to a batch."""

    def __init__(self, reached: int) -> None:
        self._reached = reached
        self.seeded: list[tuple[int, str, Path]] = []

    def reached(self) -> int:
        return self._reached

    def seed(self, batch: int, mode: str, source: Path) -> None:
        self.seeded.append((batch, mode, source))


def seeded(spark: Started, directory: Path, log: Any, **changes: Any) -> list[tuple[int, str, Path]]:
    """Start from batch 2 of a query that wrote to /old, into /new; returns what the new output was given."""
    sink = QuerySink(kind=SinkKind.FILE, format="json", path="/old", max_batch=2)
    plan = plan_of("rows").model_copy(
        update={"queries": {"rows": QueryPlan(batch=2, sink=sink, sink_gone=changes.get("gone", False))}}
    )
    starter = starter_of(spark, directory, Lifecycle(), plan)
    starter._origin = replace(starter._origin, sinks=changes.get("sinks", Path("/kept")), output=OutputMode.CONTINUE)
    starter._seed("rows", log, "/new", LocalTree(directory / "rows"))
    found: list[tuple[int, str, Path]] = log.seeded
    return found


def test_a_new_output_gets_the_log_that_was_kept_with_the_cut(spark: Started, tmp_path: Path) -> None:
    ((batch, mode, source),) = seeded(spark, tmp_path, Log(-1))

    assert (batch, mode) == (2, "continue")
    assert source.is_relative_to("/kept")


def test_a_new_output_of_one_that_is_gone_begins_without_the_old_files(spark: Started, tmp_path: Path) -> None:
    assert [mode for _, mode, _ in seeded(spark, tmp_path, Log(-1), gone=True)] == ["fresh"]


def test_an_output_that_was_written_to_since_is_not_given_a_log_again(spark: Started, tmp_path: Path) -> None:
    assert seeded(spark, tmp_path, Log(3)) == []


def test_a_new_output_without_a_log_to_begin_with_is_refused(spark: Started, tmp_path: Path) -> None:
    with pytest.raises(RestoreRefusedError, match=r"output /new of query 'rows' is new, .* was not named.*sinks"):
        seeded(spark, tmp_path, Log(-1), sinks=None)


PLACE = "s3://bucket/out"
CLUSTER = ClusterPaths("spark-ha", "c")


@pytest.fixture
def coordinator() -> Coordinator:
    config = HaConfig.build(zookeeper="fake:1", storage_root="file:///nowhere")
    return FakeEnsemble().connect(config)


def claims_of(coordinator: Coordinator, job_id: str, run: int = 1, commit: Any = None) -> OutputClaims:
    """Return the claims of a run that has no result."""
    paths = CLUSTER.job(job_id)
    coordinator.ensure(paths.run(run))
    return OutputClaims(coordinator, paths, commit or coordinator.commit, run)


def end(coordinator: Coordinator, job_id: str, run: int = 1) -> None:
    """Give a run its result."""
    result = RunResult(state=JobState.FINISHED, epoch=1, at=datetime(2026, 1, 1, tzinfo=timezone.utc))
    coordinator.commit(Create(CLUSTER.job(job_id).run_result(run), result.to_bytes()))


def test_an_output_of_another_job_that_is_not_over_is_refused_with_its_name(coordinator: Coordinator) -> None:
    claims_of(coordinator, "first").claim(PLACE, "rows")

    with pytest.raises(ApplicationRefusedError, match=r"query 'rows' of job 'first', whose run 1 is not over"):
        claims_of(coordinator, "second").claim(PLACE, "windows")


def test_an_output_goes_to_the_next_job_when_the_run_that_had_it_is_over(coordinator: Coordinator) -> None:
    claims_of(coordinator, "first").claim(PLACE, "rows")
    end(coordinator, "first")
    second = claims_of(coordinator, "second")

    second.claim(PLACE, "rows")

    with pytest.raises(ApplicationRefusedError, match="job 'second'"):
        claims_of(coordinator, "first", run=2).claim(PLACE, "rows")


def test_a_claim_of_a_run_that_was_forgotten_hinders_no_job(coordinator: Coordinator) -> None:
    claims_of(coordinator, "first").claim(PLACE, "rows")
    coordinator.commit(Delete(CLUSTER.job("first").run(1)))

    claims_of(coordinator, "second").claim(PLACE, "rows")


def test_later_runs_and_epochs_of_the_job_keep_its_outputs(coordinator: Coordinator) -> None:
    for run in (1, 1, 2):
        claims_of(coordinator, "first", run).claim(PLACE, "rows")

    with pytest.raises(ApplicationRefusedError, match="whose run 2 is not over"):
        claims_of(coordinator, "second").claim(PLACE, "rows")


def test_other_outputs_are_free(coordinator: Coordinator) -> None:
    claims_of(coordinator, "first").claim(PLACE, "rows")

    claims_of(coordinator, "second").claim(f"{PLACE}-2", "rows")


def test_a_claim_whose_answer_was_lost_is_found_again(coordinator: Coordinator) -> None:
    asked = []

    def losing(*ops: Any, **more: Any) -> list[int]:
        asked.append(ops)
        coordinator.commit(*ops, **more)
        raise OutcomeUnknownError("no answer")

    claims_of(coordinator, "first", commit=losing).claim(PLACE, "rows")

    assert len(asked) == 1


def test_of_two_jobs_that_claim_an_output_at_once_one_is_refused(coordinator: Coordinator) -> None:
    second = claims_of(coordinator, "second")

    def overtaken(*ops: Any, **more: Any) -> list[int]:
        second.claim(PLACE, "rows")
        return coordinator.commit(*ops, **more)

    with pytest.raises(ApplicationRefusedError, match="job 'second'"):
        claims_of(coordinator, "first", commit=overtaken).claim(PLACE, "rows")


def test_of_two_jobs_that_take_over_an_output_at_once_one_is_refused(coordinator: Coordinator) -> None:
    """What is there was read before: the version of that must still be the one."""
    claims_of(coordinator, "old").claim(PLACE, "rows")
    end(coordinator, "old")
    second = claims_of(coordinator, "second")

    def overtaken(*ops: Any, **more: Any) -> list[int]:
        second.claim(PLACE, "rows")
        return coordinator.commit(*ops, **more)

    with pytest.raises(ApplicationRefusedError, match="job 'second'"):
        claims_of(coordinator, "first", commit=overtaken).claim(PLACE, "rows")


@pytest.mark.parametrize(
    ("source", "path"),
    [
        ("parquet", "out"),
        ("JSON", "./out"),
        ("delta", "../out"),
        ("csv", "~/out"),
        ("orc", "file:out"),
        ("iceberg", "warehouse/t"),
        ("com.example.Sink", "out"),
    ],
)
def test_a_path_that_depends_on_the_working_directory_is_relative(source: str, path: str) -> None:
    assert is_relative(source, path)


@pytest.mark.parametrize(
    ("source", "path"),
    [
        ("parquet", "/data/out"),
        ("json", "file:/data/out"),
        ("delta", "file:///data/out"),
        ("orc", "s3a://bucket"),
        ("csv", "hdfs:///data/out"),
        ("iceberg", "db.table"),
        ("ES", "index/rows"),
        ("bigquery", "dataset.rows"),
        ("kafka", "ignored"),
        ("foreachBatch", "ignored"),
    ],
)
def test_a_path_that_means_the_same_everywhere_is_not_relative(source: str, path: str) -> None:
    assert not is_relative(source, path)


def test_the_refusal_names_the_path_its_directory_and_the_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(ApplicationRefusedError) as refused:
        refuse_relative("query 'q'", "json", "results/out")

    assert str(refused.value) == (
        f"query 'q' writes to the relative path 'results/out'; here that is {tmp_path}/results/out, and another "
        "directory in every other attempt, so a recovery would lose its rows. Write it as an absolute path, for "
        "example '/data/out'."
    )


@pytest.mark.parametrize("path", [None, ""])
def test_no_path_is_for_spark_to_judge(path: str | None) -> None:
    refuse_relative("query 'q'", "json", path)
