"""Moving a job between clusters, without Spark: a recorded job, its engine only notes what it is asked to launch."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.areas.layered.layered_tree import LayeredTree
from airflow_provider_ha.checkpoints.areas.open_work_area import open_work_area
from airflow_provider_ha.checkpoints.model import QuerySink, SinkKind
from airflow_provider_ha.checkpoints.restore.plan_execution import read_plan
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import Progress, progress
from airflow_provider_ha.checkpoints.spark.object_tree import ObjectTree
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_lookup import stored_savepoint
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_restore import restore_files
from airflow_provider_ha.checkpoints.verify.verification import verify
from airflow_provider_ha.clock import SystemClock, new_id
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator, Delete, SetData
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.errors import (
    CheckpointMissingError,
    ConfigurationError,
    HaError,
    JobStateError,
    StorageUnavailableError,
)
from airflow_provider_ha.jobs.job_context import CallerIdentity, JobContext
from airflow_provider_ha.jobs.job_stores import savepoint_store
from airflow_provider_ha.jobs.model import JobState, RunResult
from airflow_provider_ha.jobs.move import move_arrival, move_steps
from airflow_provider_ha.jobs.move.move_arrival import check_outputs
from airflow_provider_ha.jobs.move.move_records import Move, MoveRequest, cluster_name, read_arrival
from airflow_provider_ha.jobs.move.move_steps import abandon_move, move_job, plan_move
from airflow_provider_ha.jobs.observe import create_job
from airflow_provider_ha.jobs.rebuild.rebuild_plan import plan_job
from airflow_provider_ha.jobs.rebuild.storage_evidence import gather
from airflow_provider_ha.jobs.recovery.transactions import take_lock
from airflow_provider_ha.jobs.submit import run_submission
from airflow_provider_ha.jobs.submit.preconditions import refuse_moved
from airflow_provider_ha.storage.s3_store import S3Store
from java.build_component import build
from tests.support.checkpoints.layered_files import LayeredFiles
from tests.support.clusters.cluster_helpers import Cluster
from tests.support.clusters.coordination_helpers import JOB
from tests.support.deadline import error_of
from tests.support.s3.s3_server import S3Access
from tests.support.spark import job_to_move
from tests.support.spark.job_to_move import LAST, moved_to, save
from tests.support.spark.layered_job import on_s3
from tests.support.spark.recorded_job import QUERY, copy_output
from tests.support.specs import changed


# On ZooKeeper each of these tests takes three seconds. The contract suite of the coordinator compares both backends.
BACKENDS = ("fake", pytest.param("zookeeper", marks=pytest.mark.long))
BATCH = 9
REQUEST = MoveRequest(requested_by="test")
A_PERSON = CallerIdentity()


@pytest.fixture
def here(config: HaConfig, coordinator: Coordinator, tmp_path: Path) -> Cluster:
    """The old cluster."""
    (tmp_path / "old").mkdir()
    return Cluster(config, coordinator, tmp_path / "old")


@pytest.fixture
def there(config: HaConfig, coordinator: Coordinator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """The new cluster: its jobs work on files that are used as objects are."""
    (tmp_path / "new").mkdir()
    files = LayeredFiles(tmp_path / "work-of-the-new-one")
    opened = HaConfig.model_validate(
        {**config.model_dump(), "cluster_id": f"n-{new_id()[:12]}", "work_root": f"file://{tmp_path}/layered"}
    )

    monkeypatch.setattr(
        "airflow_provider_ha.jobs.job_context.open_work_area",
        lambda asked, roots: files.area if asked.cluster_id == opened.cluster_id else open_work_area(asked, roots),
    )
    return Cluster(opened, coordinator, tmp_path / "new")


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return copy_output(tmp_path / "out")


@pytest.fixture
def over(here: Cluster, output: Path) -> JobContext:
    """A job that is over, with a savepoint of its last batch; its file sink has exactly that."""
    return job_to_move.over(here, JOB, output)


@pytest.fixture
def target(there: Cluster) -> JobContext:
    return there.context(JOB)


def _move(source: JobContext, target: JobContext, request: MoveRequest = REQUEST) -> Move:
    return move_job(source, target, request, A_PERSON)


def test_a_job_that_is_over_goes_on_at_its_new_place(over: JobContext, target: JobContext, there: Cluster) -> None:
    moved = _move(over, target)

    assert (moved.state, moved.run, moved.cut) == ("moved", 1, {QUERY: LAST})
    assert savepoint_store(target).verify("stopped") == []
    assert progress(savepoint_store(target).tree("stopped") / QUERY) == Progress(LAST, LAST)
    run = target.runs.get(1).run
    assert run.start.plan is not None
    plan = read_plan(target.store, run.start.plan.sha256)
    assert (plan.source_id, plan.directory, plan.same_output) == ("stopped", target.keys.savepoint("stopped"), True)
    assert target.graph(run.graph).application == over.graph(over.runs.get(1).run.graph).application
    assert [job_id for job_id, _ in there.engine.launches()] == [JOB]
    assert read_arrival(target.coordinator, target.paths) is None


@pytest.mark.slow
def test_a_job_goes_to_a_real_bucket_and_comes_back(
    over: JobContext, real: S3Access, coordinator: Coordinator, tmp_path: Path
) -> None:
    """The bucket keeps what was brought, digest by digest, and plain checkpoints of it are whole as well."""
    build()  # Spark's half of a work root on S3, which a job needs before it is sent there
    (tmp_path / "s3").mkdir()
    opened = on_s3(over.config.model_copy(update={"cluster_id": f"s-{new_id()[:12]}"}), real, tmp_path)
    there = Cluster(opened, coordinator, tmp_path / "s3")
    target = there.context(JOB)

    moved = _move(over, target)

    store = savepoint_store(target)
    assert (moved.run, store.verify("stopped")) == (1, [])
    plain = S3Store(f"s3://{real.new_bucket()}/plain", real.options())
    assert restore_files(stored_savepoint(store, "stopped"), plain) == plain.uri.replace("s3:", "s3a:")
    found = ObjectTree(plain) / QUERY
    assert (progress(found), verify(found, depth="full").startable) == (Progress(LAST, LAST), True)
    _end(target)
    assert _move(target, over).run == 2
    assert savepoint_store(over).verify("stopped") == []


def test_its_epochs_and_numbers_go_on(over: JobContext, target: JobContext) -> None:
    """A fenced output knows the highest token: a lower one would be refused as that of a zombie."""
    over.coordinator.ensure(over.paths.checkpoint_id_counter)
    over.coordinator.commit(SetData(over.paths.checkpoint_id_counter, b"41"))

    _move(over, target)

    epochs = [job.coordinator.get(job.paths.epoch).version for job in (over, target)]
    assert epochs[1] >= epochs[0] - 1  # the note of the run, made last, takes an epoch as well
    assert target.coordinator.get(target.paths.checkpoint_id_counter).data == b"41"


def test_its_old_place_starts_it_no_more(over: JobContext, target: JobContext, here: Cluster) -> None:
    _move(over, target)

    error = error_of(lambda: here.client.job(JOB).submit(changed(here.request(JOB), request_id="again")))

    assert isinstance(error, JobStateError)
    assert re.search(r"was moved to cluster .*n-", str(error))
    assert over.runs.numbers() == [1]
    assert moved_to(over) == (cluster_name(target.config), 1)


def test_a_run_that_is_made_while_the_job_leaves_is_not_made(
    over: JobContext, target: JobContext, here: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The submitter has looked before the mark, and commits after it."""
    monkeypatch.setattr("airflow_provider_ha.jobs.submit.run_submission.refuse_moved", _once_then_look(over, target))

    with pytest.raises(JobStateError, match="moved to cluster"):
        here.client.job(JOB).submit(changed(here.request(JOB), request_id="again"))

    assert over.runs.numbers() == [1]


def _once_then_look(over: JobContext, target: JobContext) -> Callable[[JobContext], None]:
    looked: list[bool] = []

    def look(job: JobContext) -> None:
        if not looked:
            looked.append(True)
            _move(over, target)
            return
        refuse_moved(job)

    return look


def test_what_the_sink_is_ahead_of_is_executed_again(here: Cluster, target: JobContext, output: Path) -> None:
    """The newest savepoint is older than the output: its records come along in the plan."""
    job = here.ended(JOB)
    save(job, "older", BATCH, output)

    with pytest.raises(HaError, match="LOSS_POSSIBLE"):
        _move(job, target)

    assert (moved_to(job), read_arrival(target.coordinator, target.paths)) == (None, None)


def test_a_dry_run_shows_steps_and_bytes_and_changes_nothing(over: JobContext, target: JobContext) -> None:
    shown = plan_move(over, target, REQUEST, A_PERSON)

    assert (shown.state, shown.source, shown.cut) == ("planned", "savepoint-stopped", {QUERY: LAST})
    assert shown.bytes is not None
    assert shown.bytes > 0
    assert len(shown.steps) == 3
    assert (moved_to(over), target.runs.numbers()) == (None, [])


def test_a_move_that_is_done_is_found_again(over: JobContext, target: JobContext, there: Cluster) -> None:
    first = _move(over, target)

    again = _move(over, target)

    assert (again.run, again.move_id, target.runs.numbers()) == (first.run, first.move_id, [1])
    assert len(there.engine.launches()) == 1


STEPS = [
    (move_arrival, "announce"),
    (move_steps, "mark"),
    (move_steps, "savepoint_of"),
    (move_arrival, "bring"),
    (move_arrival, "start"),
    (move_steps, "note_run"),
]


@pytest.mark.parametrize(
    "step", [(*step, when) for step in STEPS for when in ("before", "after")], ids=lambda step: f"{step[2]}-{step[1]}"
)
def test_a_move_that_died_at_a_step_goes_on_from_there(
    over: JobContext, target: JobContext, there: Cluster, monkeypatch: pytest.MonkeyPatch, step: tuple[object, str, str]
) -> None:
    module, name, when = step
    whole = getattr(module, name)

    def dies(*arguments: object, **options: object) -> object:
        if when == "after":
            whole(*arguments, **options)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(module, name, dies)
        with pytest.raises(KeyboardInterrupt):
            _move(over, target)

    moved = _move(over, target)

    assert (moved.state, moved.run, target.runs.numbers(), over.runs.numbers()) == ("moved", 1, [1], [1])
    assert moved_to(over) == (cluster_name(target.config), 1)
    assert savepoint_store(target).verify("stopped") == []
    assert len(there.engine.launches()) == 1


def test_a_move_whose_run_has_written_since_is_ended(
    over: JobContext, target: JobContext, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its plan of before would be refused now: the output is ahead of it."""
    _move_and_die(over, target, move_steps, "note_run", monkeypatch)
    log = output / "_spark_metadata"
    (log / str(LAST + 1)).write_bytes((log / str(LAST)).read_bytes())

    moved = _move(over, target)

    assert (moved.run, target.runs.numbers(), moved_to(over)) == (1, [1], (cluster_name(target.config), 1))


def test_a_copy_that_died_is_made_again(over: JobContext, target: JobContext, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the files are there, and no pointer names them."""
    create = LayeredTree.create
    written: list[str] = []

    def until(tree: LayeredTree, name: str, data: bytes) -> None:
        if len(written) == 5:
            raise StorageUnavailableError("the store is away")
        written.append(name)
        create(tree, name, data)

    with monkeypatch.context() as patched:
        patched.setattr(LayeredTree, "create", until)
        with pytest.raises(StorageUnavailableError):
            _move(over, target)

    assert _move(over, target).run == 1
    assert savepoint_store(target).verify("stopped") == []


def test_a_move_that_is_abandoned_leaves_the_job_where_it_was(
    over: JobContext, target: JobContext, here: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    _move_and_die(over, target, move_arrival, "bring", monkeypatch)

    abandoned = abandon_move(over, target, A_PERSON)

    assert abandoned.state == "abandoned"
    assert (moved_to(over), read_arrival(target.coordinator, target.paths)) == (None, None)
    here.client.job(JOB).submit(changed(here.request(JOB), request_id="again"))
    assert over.runs.numbers() == [1, 2]


def test_a_mover_that_was_frozen_makes_no_run_once_it_is_abandoned(
    over: JobContext, target: JobContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = move_arrival.start

    def frozen(*arguments: object, **options: object) -> object:
        abandon_move(over, target, A_PERSON)
        return start(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(move_arrival, "start", frozen)

    with pytest.raises(JobStateError, match="was abandoned"):
        _move(over, target)

    assert target.runs.numbers() == []


def test_a_move_whose_savepoint_is_removed_before_its_run_is_made_is_repeated(
    over: JobContext, target: JobContext, monkeypatch: pytest.MonkeyPatch
) -> None:

    def removed_before(coordinator: Coordinator, paths: JobPaths) -> None:
        target.commit(Delete(target.paths.savepoint("stopped")))
        create_job(coordinator, paths)

    with monkeypatch.context() as patched:
        patched.setattr(run_submission, "create_job", removed_before)
        with pytest.raises(CheckpointMissingError, match=f"savepoint stopped of job '{JOB}' was removed") as told:
            _move(over, target)

    assert told.value.next_step == "Repeat the move: it copies the savepoint again"
    assert target.runs.numbers() == []
    assert _move(over, target).run == 1


def test_a_move_that_has_arrived_cannot_be_abandoned(over: JobContext, target: JobContext) -> None:
    _move(over, target)

    with pytest.raises(JobStateError, match="not on its way"):
        abandon_move(over, target, A_PERSON)


def test_a_job_comes_back(over: JobContext, target: JobContext, here: Cluster) -> None:
    _move(over, target)
    _end(target)

    back = _move(target, over)

    assert (back.run, over.runs.numbers(), moved_to(over)) == (2, [1, 2], None)
    assert moved_to(target) == (cluster_name(over.config), 2)


def _end(job: JobContext) -> None:
    with take_lock(job, 1) as leadership:
        result = RunResult(state=JobState.FINISHED, epoch=leadership.epoch, at=SystemClock().now())
        removal = job.graphs.remove_op(1)
        assert removal is not None
        leadership.commit(job.runs.result_op(1, result), removal)


def test_a_job_that_runs_is_not_stopped_unasked(here: Cluster, target: JobContext) -> None:
    job = here.submitted(JOB)

    with pytest.raises(JobStateError, match="has a live run"):
        _move(job, target, replace(REQUEST, wait=1.0))

    assert (moved_to(job), target.runs.numbers()) == (None, [])


def test_the_same_cluster_is_refused(over: JobContext, here: Cluster) -> None:
    with pytest.raises(ConfigurationError, match="is the cluster"):
        _move(over, here.context(JOB))


def test_a_cluster_that_works_in_the_same_directory_is_refused(
    over: JobContext, coordinator: Coordinator, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    config = HaConfig.model_validate({**over.config.model_dump(), "root": "another-root"})
    other = Cluster(config, coordinator, tmp_path / "other")

    with pytest.raises(ConfigurationError, match="both clusters have their work_root"):
        _move(over, other.context(JOB))


def test_a_job_of_that_id_is_not_overwritten(over: JobContext, there: Cluster) -> None:
    target = there.ended(JOB)

    with pytest.raises(JobStateError, match="never moved away"):
        _move(over, target)


def test_a_second_target_is_refused(
    over: JobContext, target: JobContext, config: HaConfig, coordinator: Coordinator, tmp_path: Path
) -> None:
    (tmp_path / "third").mkdir()
    third = Cluster(
        HaConfig.model_validate({**config.model_dump(), "cluster_id": f"t-{new_id()[:12]}"}),
        coordinator,
        tmp_path / "third",
    )
    _move(over, target)

    with pytest.raises(JobStateError, match="was moved to cluster"):
        _move(over, third.context(JOB))


def test_an_output_on_s3_needs_a_work_root_on_s3(target: JobContext) -> None:
    sink = QuerySink(kind=SinkKind.FILE, format="json", path="s3://bucket/out", max_batch=3)
    plan: Any = SimpleNamespace(queries={QUERY: SimpleNamespace(sink=sink)})

    with pytest.raises(ConfigurationError, match="needs a work root on S3"):
        check_outputs(target, plan)


def test_an_output_that_is_another_one_for_the_target_is_refused(target: JobContext, output: Path) -> None:
    sink = QuerySink(kind=SinkKind.FILE, format="json", path=str(output), max_batch=LAST + 1)
    plan: Any = SimpleNamespace(queries={QUERY: SimpleNamespace(sink=sink)})

    with pytest.raises(ConfigurationError, match="it is another one"):
        check_outputs(target, plan)


def test_a_target_that_the_job_is_on_its_way_to_starts_nothing(
    over: JobContext, target: JobContext, there: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    _move_and_die(over, target, move_arrival, "bring", monkeypatch)

    with pytest.raises(JobStateError, match="is being moved here from cluster"):
        there.client.job(JOB).submit(there.request(JOB))


def test_where_a_job_has_gone_is_known_without_zookeeper(over: JobContext, target: JobContext) -> None:
    _move(over, target)

    evidence = gather(over.config, over.store, JOB)

    nodes = {node.path: node.data for node in plan_job(evidence, over.paths).nodes}
    assert nodes[over.paths.moved] == over.coordinator.get(over.paths.moved).data


def test_a_job_that_came_back_is_not_gone_without_zookeeper(over: JobContext, target: JobContext) -> None:
    _move(over, target)
    _end(target)

    _move(target, over)

    evidence = gather(over.config, over.store, JOB)
    assert over.paths.moved not in {node.path for node in plan_job(evidence, over.paths).nodes}


def test_an_output_that_is_not_there_is_refused(over: JobContext, target: JobContext, output: Path) -> None:
    output.rename(output.with_name("elsewhere"))

    with pytest.raises(HaError):
        _move(over, target)

    assert moved_to(over) is None


def _move_and_die(
    source: JobContext, target: JobContext, module: ModuleType, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Move the job in a process that ends where it would take a step."""
    with monkeypatch.context() as patched:
        patched.setattr(module, step, _dies)
        with pytest.raises(KeyboardInterrupt):
            _move(source, target)


def _dies(*_: object, **__: object) -> None:
    raise KeyboardInterrupt
