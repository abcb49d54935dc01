"""``spark-ha delete job`` on a real cluster: what goes, what stays, what is refused, and the next life of the job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.checkpoints.model import BatchEntry, QueryCut, QuerySink, SinkKind
from airflow_provider_ha.checkpoints.plan_model import Verdict
from airflow_provider_ha.checkpoints.sinks.unread_sinks import ForeachBatchLog
from airflow_provider_ha.checkpoints.store.pointer_store import PointerStore
from airflow_provider_ha.checkpoints.store.savepoints.manifest import MANIFEST
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator, Create, Delete
from airflow_provider_ha.coordination.election import acquire
from airflow_provider_ha.coordination.reader_leases import ReaderLease, hold
from airflow_provider_ha.errors import JobStateError, UnknownJobError
from airflow_provider_ha.fleet.cluster_removal import erase
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.job_stores import checkpoint_store
from airflow_provider_ha.jobs.move.move_records import ArrivalRecord, MoveRecord
from airflow_provider_ha.jobs.rebuild.rebuild import plan_rebuild, rebuild
from airflow_provider_ha.jobs.removal import job_deletion
from airflow_provider_ha.jobs.removal.removal_records import read_life
from airflow_provider_ha.jobs.runs.output_claims import OutputClaims
from airflow_provider_ha.jobs.submit import run_submission
from airflow_provider_ha.jobs.submit.submit_request import submit_job
from tests.support.clusters import submit_helpers as helpers
from tests.support.clusters.jobs_helpers import NOON, lead
from tests.support.clusters.whole_jobs import BATCH, PLACE, SAVEPOINT, files_of, whole_job
from tests.support.spark.recorded_job import QUERY


pytestmark = pytest.mark.timeout(300)
YES, NO, UNKNOWN, WRONG_CALL = 0, 1, 2, 64
LOSS = ("--accept-verdicts", "LOSS_POSSIBLE")  # its last directory is gone, and a function may have had later batches


def nodes(job: JobContext) -> set[str]:
    return set(job.coordinator.children(job.paths.base))


def test_everything_goes_but_epoch_and_counter(spark_ha: Any, over: JobContext) -> None:
    epoch = over.snapshot().epoch

    code, out, err = spark_ha("delete", "job", "copy", "--yes", "--json")

    assert (code, json.loads(out)["state"]) == (YES, "deleted"), err
    assert nodes(over) == {"job_manager_lock", "checkpoint_id_counter"}
    assert over.coordinator.get(over.paths.epoch).version > epoch
    assert files_of(over) == []
    assert over.coordinator.children(over.paths.cluster.outputs) == []
    assert over.coordinator.children(over.paths.cluster.quarantine) == []


@pytest.mark.usefixtures("over")
def test_no_reader_knows_a_deleted_job(spark_ha: Any) -> None:
    spark_ha("delete", "job", "copy", "--yes")

    assert json.loads(spark_ha("job", "list", "--json")[1])["jobs"] == []
    nouns = {"job": ("show", "graph", "logs", "history", "leader"), "checkpoint": ("list",)}
    for words in ((noun, verb) for noun, verbs in nouns.items() for verb in verbs):
        code, _, err = spark_ha(*words, "copy")
        assert (code, "was deleted on" in err) == (NO, True), words


def test_a_second_deletion_of_a_deleted_job_is_done(spark_ha: Any, over: JobContext) -> None:
    spark_ha("delete", "job", "copy", "--yes")
    epoch = over.coordinator.get(over.paths.epoch).version

    code, _, _ = spark_ha("delete", "job", "copy", "--yes")

    assert code == YES
    assert over.coordinator.get(over.paths.epoch).version == epoch


@pytest.mark.usefixtures("copy")
def test_a_job_that_is_not_there_is_no_deleted_one(spark_ha: Any) -> None:
    code, _, err = spark_ha("delete", "job", "no-such-job", "--yes")

    assert code == NO
    assert "is not known in cluster" in err


def test_savepoints_are_kept_with_what_a_restore_reads(spark_ha: Any, over: JobContext) -> None:
    code, _, _ = spark_ha("delete", "job", "copy", "--keep-savepoints", "--yes")

    assert code == YES
    listed = json.loads(spark_ha("savepoint", "list", "copy", "--json")[1])["savepoints"]
    assert [each["savepoint_id"] for each in listed] == [SAVEPOINT]
    kept = [str(path.relative_to(over.config.work_path / over.keys.base)) for path in files_of(over)]
    assert f"savepoints/{SAVEPOINT}/{MANIFEST}" in kept
    assert {name.split("/")[0] for name in kept} == {"savepoints", "checkpoints"}
    assert not [name for name in kept if name.startswith("checkpoints/pins")]
    assert spark_ha("delete", "savepoint", "copy", SAVEPOINT, "--yes")[0] == YES
    assert spark_ha("savepoint", "list", "copy")[0] == NO


@pytest.mark.parametrize("asked", ["latest", f"savepoint-{SAVEPOINT}"])
def test_a_kept_savepoint_is_planned(spark_ha: Any, over: JobContext, asked: str) -> None:
    spark_ha("delete", "job", "copy", "--keep-savepoints", "--yes")

    code, out, err = spark_ha("job", "restore", "--dry-run", "copy", "--start-from", asked, *LOSS, "--json")

    assert code == YES, err
    assert (json.loads(out)["source"], json.loads(out)["source_id"]) == ("savepoint", SAVEPOINT)


def test_notes_about_a_fenced_function_do_not_outlive_the_directory_that_they_belong_to(
    spark_ha: Any, over: JobContext
) -> None:
    """They say what some epochs gave to it. That no other epoch did, only the last working directory shows."""
    with lead(over.coordinator, over.paths, over.config) as leadership:
        leadership.start_heartbeats(lambda reason: None)
        cut = QueryCut(
            batch=BATCH + 1,
            sink=QuerySink(kind=SinkKind.FOREACH_BATCH),
            entries=(BatchEntry(batch=BATCH + 1, offsets="v1\n{}\n{}"),),
        )
        last = checkpoint_store(over).recover().checkpoints[-1][1]
        changes = {"number": 3, "epoch": leadership.epoch, "queries": {QUERY: cut}}
        checkpoint_store(over).add(leadership, last.model_copy(update=changes))
        ForeachBatchLog(over.area.tree(over.keys.given(QUERY))).begin(leadership.epoch, BATCH + 1)

    assert spark_ha("delete", "job", "copy", "--keep-savepoints", "--yes")[0] == YES
    _, out, _ = spark_ha("job", "restore", "--dry-run", "copy", "--start-from", f"savepoint-{SAVEPOINT}", "--json")

    assert json.loads(out)["verdict"] == "LOSS_POSSIBLE"
    assert "may have reached the sink without a record" in out


def test_the_rows_of_a_drain_are_known_after_the_deletion(spark_ha: Any, copy: JobContext, tmp_path: Path) -> None:
    """Its working directory and its run are gone: that its sinks have more than the savepoint has to outlive both."""
    job = whole_job(copy, helpers.script(tmp_path), drained=True)
    words = ("job", "restore", "--dry-run", "copy", "--start-from", f"savepoint-{SAVEPOINT}", "--json")
    before = json.loads(spark_ha(*words)[1])

    assert spark_ha("delete", "job", "copy", "--keep-savepoints", "--yes")[0] == YES
    after = json.loads(spark_ha(*words)[1])

    assert job.runs.numbers() == []
    assert [before["verdict"], after["verdict"]] == ["DUPLICATES_POSSIBLE"] * 2
    assert "the drain's batch 10" in str(after["reasons"])


@pytest.mark.parametrize("end", [("delete", "job", "copy", "--keep-savepoints"), ("delete", "cluster")])
def test_a_restore_from_a_kept_savepoint_begins_the_next_life(
    spark_ha: Any, over: JobContext, end: tuple[str, ...]
) -> None:
    assert spark_ha(*end, "--yes")[0] == YES

    code, _, err = spark_ha("job", "restore", "copy", *LOSS)

    assert code == YES, err
    assert over.runs.numbers() == [2]
    assert over.runs.get(2).run.start.source_id == SAVEPOINT
    assert read_life(over.coordinator, over.paths).deleted is None


def test_a_submission_begins_from_a_kept_savepoint(spark_ha: Any, over: JobContext, tmp_path: Path) -> None:
    spark_ha("delete", "job", "copy", "--keep-savepoints", "--yes")

    accepted = frozenset({Verdict.SAFE, Verdict.LOSS_POSSIBLE})
    run = submit_job(over, helpers.request(helpers.script(tmp_path), accept_verdicts=accepted)).run

    assert over.runs.get(run).run.start.source_id == SAVEPOINT


def test_a_kept_savepoint_stays_for_a_submission_at_the_last_moment(
    spark_ha: Any, over: JobContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark_ha("delete", "job", "copy", "--keep-savepoints", "--yes")
    mark, accepted = PointerStore.mark, frozenset({Verdict.SAFE, Verdict.LOSS_POSSIBLE})

    def submitted_first(*args: Any, **kwargs: Any) -> str | None:
        submit_job(over, helpers.request(helpers.script(tmp_path), accept_verdicts=accepted))
        return mark(*args, **kwargs)

    monkeypatch.setattr(PointerStore, "mark", submitted_first)

    code, _, err = spark_ha("delete", "savepoint", "copy", SAVEPOINT, "--yes")

    assert (code, "was created while savepoint" in err) == (NO, True)
    assert over.coordinator.find(over.paths.savepoint(SAVEPOINT)) is not None


def test_another_job_begins_from_a_kept_savepoint(spark_ha: Any, over: JobContext) -> None:
    spark_ha("delete", "job", "copy", "--keep-savepoints", "--yes")

    words = ("job", "restore", "other", "--source-job", "copy", "--output-mode", "fresh", "--dry-run", "--json")
    code, out, err = spark_ha(*words, "--accept-verdicts", "LOSS_POSSIBLE")

    assert code == YES, err
    assert json.loads(out)["source_id"] == SAVEPOINT


def test_without_its_savepoints_a_deleted_job_is_no_source(spark_ha: Any, over: JobContext) -> None:
    spark_ha("delete", "job", "copy", "--yes")

    code, _, err = spark_ha("job", "restore", "copy")

    assert code == NO
    assert "was deleted on" in err


def test_kept_savepoints_go_with_a_second_deletion(spark_ha: Any, over: JobContext) -> None:
    spark_ha("delete", "job", "copy", "--keep-savepoints", "--yes")

    code, _, _ = spark_ha("delete", "job", "copy", "--yes")

    assert code == YES
    assert files_of(over) == []


def test_the_next_life_has_the_next_epoch_and_no_name_of_the_old_one(
    spark_ha: Any, over: JobContext, tmp_path: Path
) -> None:
    spark_ha("delete", "job", "copy", "--yes")
    epoch = over.coordinator.get(over.paths.epoch).version

    run = helpers.submit(over, helpers.script(tmp_path)).run

    assert run == 2
    assert over.snapshot().epoch == epoch
    assert json.loads(spark_ha("job", "list", "--json")[1])["jobs"][0]["job_id"] == "copy"
    with lead(over.coordinator, over.paths, over.config, run=2) as leadership:
        assert leadership.epoch == epoch + 1


def test_a_dry_run_changes_nothing(spark_ha: Any, over: JobContext) -> None:
    before = nodes(over), files_of(over), over.snapshot()

    code, out, _ = spark_ha("delete", "job", "copy", "--dry-run", "--json")

    assert code == YES
    assert json.loads(out) == {
        "job_id": "copy",
        "state": "planned",
        "runs": 1,
        "checkpoints": 2,
        "savepoints": [SAVEPOINT],
        "keep_savepoints": False,
        "waiting": [],
    }
    assert (nodes(over), files_of(over), over.snapshot()) == before


def test_without_a_terminal_it_asks_for_yes(spark_ha: Any, over: JobContext) -> None:
    code, _, err = spark_ha("delete", "job", "copy")

    assert code == WRONG_CALL
    assert "Add --yes" in err
    assert over.snapshot().checkpoint_numbers == (1, 2)


# What is refused, and then nothing has changed.


def assert_refused(spark_ha: Any, job: JobContext, reason: str) -> None:
    before = nodes(job), files_of(job), job.snapshot()
    for words in (("--yes",), ("--dry-run",)):
        code, _, err = spark_ha("delete", "job", "copy", *words)
        assert code == NO
        assert reason in err
    assert (nodes(job), files_of(job), job.snapshot()) == before


def test_a_live_run_is_refused(spark_ha: Any, copy: JobContext, tmp_path: Path) -> None:
    live = whole_job(copy, helpers.script(tmp_path), over=False)

    assert_refused(spark_ha, live, "`spark-ha job stop copy` or `spark-ha job cancel copy`")


def test_a_leader_is_refused(spark_ha: Any, over: JobContext) -> None:
    with lead(over.coordinator, over.paths, over.config):
        assert_refused(spark_ha, over, "is led by epoch")


@pytest.mark.parametrize("what", ["checkpoint-2", f"savepoint-{SAVEPOINT}"])
def test_a_reader_is_refused(spark_ha: Any, over: JobContext, what: str) -> None:
    hold(over.coordinator, over.paths, what, holder="test", seconds=60, clock=SystemClock())

    assert_refused(spark_ha, over, f"a reader holds {what!r}")


def test_a_move_is_refused(spark_ha: Any, over: JobContext) -> None:
    moved = MoveRecord(move_id="m", cluster="there", place="/there", by="test", at=NOON)
    over.coordinator.commit(Create(over.paths.moved, moved.to_bytes()))

    assert_refused(spark_ha, over, "is being moved to cluster there")


def test_an_arrival_is_refused(spark_ha: Any, over: JobContext) -> None:
    arrival = ArrivalRecord(move_id="m", cluster="there", by="test", at=NOON)
    over.coordinator.commit(Create(over.paths.arriving, arrival.to_bytes()))

    assert_refused(spark_ha, over, "is being moved here")


def read_at_the_last_moment(monkeypatch: pytest.MonkeyPatch) -> list[ReaderLease]:
    make_gone, leases = job_deletion._make_gone, list[ReaderLease]()

    def read_first(job: JobContext, *args: Any, **kwargs: Any) -> Any:
        if not leases:
            leases.append(hold(job.coordinator, job.paths, "checkpoint-2", holder="t", seconds=60, clock=job.clock))
        return make_gone(job, *args, **kwargs)

    monkeypatch.setattr(job_deletion, "_make_gone", read_first)
    return leases


def test_a_reader_that_comes_last_keeps_the_files_and_not_the_job(
    spark_ha: Any, over: JobContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lease is made between the look at the leases and the transaction that removes the pointers."""
    lease = read_at_the_last_moment(monkeypatch)

    code, out, _ = spark_ha("delete", "job", "copy", "--yes", "--json")

    assert (code, json.loads(out)["state"], json.loads(out)["waiting"]) == (NO, "waiting", ["checkpoint-2"])
    assert files_of(over)
    with pytest.raises(UnknownJobError, match="is being deleted"):
        over.snapshot()
    assert over.coordinator.children(over.paths.checkpoints) == []
    with pytest.raises(JobStateError, match="is being deleted since"):
        helpers.submit(over, helpers.script(tmp_path))
    kept, _, refused = spark_ha("delete", "job", "copy", "--yes", "--keep-savepoints")
    assert (kept, "Complete that without --keep-savepoints" in refused) == (NO, True)
    over.coordinator.commit(Delete(lease[0].path))
    assert spark_ha("delete", "job", "copy", "--yes")[0] == YES
    assert files_of(over) == []


def test_a_deletion_that_waits_names_the_command_that_keeps_the_savepoints_and_takes_no_other(
    spark_ha: Any, over: JobContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease, again = read_at_the_last_moment(monkeypatch), "spark-ha delete job copy --keep-savepoints"

    _, waits, _ = spark_ha("delete", "job", "copy", "--keep-savepoints", "--yes")
    shown, (code, _, refused) = spark_ha("job", "show", "copy")[2], spark_ha("delete", "job", "copy", "--yes")

    assert [again in " ".join(text.split()) for text in (waits, shown, refused)] == [True] * 3
    assert code == NO
    over.coordinator.commit(Delete(lease[0].path))
    assert spark_ha("delete", "job", "copy", "--keep-savepoints", "--yes")[0] == YES
    assert len(over.coordinator.children(over.paths.savepoints)) == 1


def test_without_the_work_root_nothing_is_deleted(spark_ha: Any, over: JobContext) -> None:
    root = over.config.work_path
    away = root.rename(root.with_name("away"))

    code, _, err = spark_ha("delete", "job", "copy", "--yes")

    away.rename(root)
    assert code != YES, err
    assert over.snapshot().run is not None
    assert files_of(over)


def test_a_run_that_was_prepared_before_the_deletion_is_not_made_after_it(
    over: JobContext, coordinator: Coordinator, config: HaConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The submitter has read the job before; its transaction comes between the two of the deletion."""
    patched: Any = run_submission
    client, create_job = HaClient(config, coordinator), patched.create_job

    def deleted_in_between(*args: Any) -> None:
        monkeypatch.setattr(run_submission, "create_job", create_job)
        client.job("copy").delete(requested_by="test")
        create_job(*args)

    monkeypatch.setattr(run_submission, "create_job", deleted_in_between)

    run = helpers.submit(over, helpers.script(tmp_path))

    assert (run.run, run.created) == (2, True)
    assert read_life(coordinator, over.paths).deleted is None
    assert client.list_jobs() == ["copy"]


def test_a_run_that_is_made_at_the_last_moment_keeps_the_job(
    over: JobContext, coordinator: Coordinator, config: HaConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A submitter takes no lock: it comes between the last look of the deletion and its transaction."""
    make_gone = job_deletion._make_gone

    def submitted_first(job: JobContext, *args: Any, **kwargs: Any) -> Any:
        helpers.submit(over, helpers.script(tmp_path))
        return make_gone(job, *args, **kwargs)

    monkeypatch.setattr(job_deletion, "_make_gone", submitted_first)

    with pytest.raises(JobStateError, match="was submitted or moved at this moment"):
        HaClient(config, coordinator).job("copy").delete(requested_by="test")

    assert over.runs.numbers() == [1, 2]
    assert over.snapshot().checkpoint_numbers == (1, 2)


def test_an_output_of_a_deleted_job_is_free(
    over: JobContext, coordinator: Coordinator, config: HaConfig, tmp_path: Path
) -> None:
    HaClient(config, coordinator).job("copy").delete(requested_by="test")
    helpers.submit(over, helpers.script(tmp_path))
    other = helpers.context(config, coordinator, job_id="other")
    other.coordinator.ensure(*other.paths.skeleton)

    with lead(coordinator, other.paths, config) as leadership:
        OutputClaims(coordinator, other.paths, leadership.commit, 1).claim(PLACE, "q")


def test_the_end_of_a_cluster_leaves_the_savepoints_of_deleted_jobs(
    over: JobContext, coordinator: Coordinator, config: HaConfig
) -> None:
    client = HaClient(config, coordinator)
    client.job("copy").delete(requested_by="test", keep_savepoints=True)
    kept = files_of(over)
    cluster = client.paths.lock

    with acquire(
        coordinator, cluster, timings=config.timings, clock=SystemClock(), describe=lambda _: b"", timeout=5
    ) as leadership:
        erase(client, leadership)

    assert files_of(over) == kept
    assert client.list_jobs() == []


def test_a_rebuild_leaves_a_deleted_job_deleted(over: JobContext, coordinator: Coordinator, config: HaConfig) -> None:
    client = HaClient(config, coordinator)
    client.job("copy").delete(requested_by="test", keep_savepoints=True)

    plan = plan_rebuild(config, client.store, coordinator)
    (applied,) = rebuild(config, coordinator, plan, missing_only=True)

    assert "was deleted" in (applied.refused or "")
    assert client.list_jobs() == []
