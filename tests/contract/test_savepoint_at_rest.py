"""A savepoint of a job that is over, made without a driver: what it holds, what refuses it, who may come between."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.api.job_client import JobClient
from airflow_provider_ha.checkpoints.areas.pins import pin
from airflow_provider_ha.checkpoints.model import Checkpoint, CheckpointKind, QueryCut, QuerySink, SinkKind
from airflow_provider_ha.checkpoints.plan_model import Verdict
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_store import SavepointStore
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.errors import (
    CheckpointMissingError,
    JobStateError,
    LeadershipUnavailableError,
    StorageUnavailableError,
    UnknownJobError,
)
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.job_stores import checkpoint_store, readers, savepoint_store
from airflow_provider_ha.jobs.model import JobState, Operation, OperationKind, OperationState
from airflow_provider_ha.jobs.operations import operations
from airflow_provider_ha.jobs.recovery.transactions import take_lock
from airflow_provider_ha.jobs.removal.job_deletion import DeletionState
from tests.support.clusters.cluster_helpers import Cluster
from tests.support.clusters.coordination_helpers import JOB
from tests.support.clusters.jobs_helpers import NOON
from tests.support.spark.recorded_job import QUERY, recorded_job
from tests.support.specs import changed


BACKENDS = ("fake",)
OLDER, NEWER = 6, 9


@pytest.fixture
def cluster(config: HaConfig, coordinator: Coordinator, tmp_path: Path) -> Cluster:
    (tmp_path / "launches").mkdir()
    return Cluster(config, coordinator, tmp_path / "launches")


@pytest.fixture
def over(cluster: Cluster) -> JobContext:
    """A job that is over, with two checkpoints of the recorded job."""
    job = cluster.ended(JOB)
    add_checkpoints(job, OLDER, NEWER)
    return job


@pytest.fixture
def client(cluster: Cluster, over: JobContext) -> JobClient:
    return cluster.client.job(over.job_id)


def add_checkpoints(job: JobContext, *batches: int) -> None:
    newest = job.runs.latest()
    assert newest is not None
    with take_lock(job, 1) as leadership:
        for number, batch in enumerate(batches, start=1):
            key = job.keys.pin(number, leadership.epoch)
            files = pin(recorded_job() / "live", job.config.work_path / key, {QUERY: batch})
            made = Checkpoint(
                job_id=job.job_id,
                number=number,
                run=1,
                epoch=leadership.epoch,
                reason=CheckpointKind.PERIODIC,
                created_at=NOON,
                queries={QUERY: QueryCut(batch=batch, sink=QuerySink(kind=SinkKind.FOREACH_BATCH), files=files[QUERY])},
                directory=job.keys.working_directory(1, "x"),
                pin=key,
                graph=newest.run.graph.sha256,
                spark_version="4.2.0",
            )
            checkpoint_store(job).add(leadership, made)


def take(client: JobClient, operation_id: str = "asked", **arguments: Any) -> Operation:
    return client.take_savepoint(operation_id=operation_id, requested_by="a person", **arguments)


def savepoints(job: JobContext) -> list[str]:
    return [pointer.savepoint_id for pointer in savepoint_store(job).list()]


def directories(job: JobContext) -> list[str]:
    place = job.config.work_path / job.keys.savepoints
    return sorted(path.name for path in place.iterdir()) if place.exists() else []


def during_the_copy(monkeypatch: pytest.MonkeyPatch, what: Callable[[], object], *, times: int = 1) -> None:
    """Have something happen once the files are copied, and before the savepoint is known."""
    copy, left = SavepointStore.copy, [None] * times

    def copied(self: SavepointStore, request: Any, live: Any) -> Any:
        made = copy(self, request, live)
        if left:
            left.pop()
            what()
        return made

    monkeypatch.setattr(SavepointStore, "copy", copied)


@pytest.mark.parametrize("state", [JobState.FINISHED, JobState.CANCELED, JobState.FAILED])
def test_it_is_a_verified_copy_of_the_newest_checkpoint_with_an_answer_as_of_a_driver(
    cluster: Cluster, state: JobState
) -> None:
    job = cluster.ended(JOB, state)
    add_checkpoints(job, OLDER, NEWER)

    answer = take(cluster.client.job(JOB), label="before the upgrade")

    store = savepoint_store(job)
    made = store.load(answer.result["savepoint_id"])
    assert (answer.state, answer.operation, answer.run) == (OperationState.COMPLETED, OperationKind.SAVEPOINT, 1)
    assert answer.result["checkpoint"] == 2
    assert {name: part.batch for name, part in made.queries.items()} == {QUERY: NEWER}
    assert made.label == "before the upgrade"
    assert store.verify(made.savepoint_id) == []
    assert answer.result["path"] == str(store.tree(made.savepoint_id))
    assert operations.list_operations(job.coordinator, job.paths) == [answer]
    assert job.snapshot().leader is None, "the lock is free again"
    assert readers(job) == []


def test_two_requests_with_one_id_create_one_savepoint(client: JobClient, over: JobContext) -> None:
    first = take(client)

    assert take(client) == first

    assert len(savepoints(over)) == len(directories(over)) == 1


def test_an_id_that_was_used_for_something_else_is_refused(client: JobClient) -> None:
    take(client)

    with pytest.raises(JobStateError, match="Use another operation id"):
        take(client, label="another one")


def test_a_damaged_checkpoint_is_passed_over_and_the_answer_says_so(client: JobClient, over: JobContext) -> None:
    newest = checkpoint_store(over).load(checkpoint_store(over).pointer(2))
    damaged = over.config.work_path / str(newest.pin) / QUERY / "offsets" / str(NEWER)
    damaged.unlink()  # a link: the recorded job keeps its file
    damaged.write_text("")

    answer = take(client)

    assert answer.result["checkpoint"] == 1
    assert [each.split(":")[0] for each in answer.result["passed_over"]] == ["checkpoint-2"]


def test_a_job_without_a_checkpoint_is_refused_and_nothing_is_made(cluster: Cluster) -> None:
    job = cluster.ended(JOB)

    with pytest.raises(CheckpointMissingError, match=r"is over and has no proven checkpoint.*spark-ha savepoint list"):
        take(cluster.client.job(JOB))

    assert (savepoints(job), directories(job)) == ([], [])
    assert operations.list_operations(job.coordinator, job.paths) == []


def test_an_unknown_job_is_refused_as_one(cluster: Cluster) -> None:
    with pytest.raises(UnknownJobError, match="no-such-job"):
        take(cluster.client.job("no-such-job"))


def test_the_driver_of_a_live_run_is_asked(cluster: Cluster) -> None:
    job = cluster.submitted(JOB)

    assert take(cluster.client.job(JOB)).state is OperationState.REQUESTED

    assert savepoints(job) == []


def test_the_checkpoint_is_leased_until_the_copy_is_known(
    client: JobClient, over: JobContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[str]] = []
    during_the_copy(monkeypatch, lambda: seen.append(readers(over)))

    take(client)

    assert seen == [["checkpoint-2"]]


def test_two_calls_with_one_id_at_the_same_time_make_one_savepoint(
    client: JobClient, over: JobContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[Operation] = []
    during_the_copy(monkeypatch, lambda: answers.append(take(client)))

    answers.append(take(client))

    assert answers[0] == answers[1]
    assert savepoints(over) == directories(over) == [answers[0].result["savepoint_id"]]
    assert savepoint_store(over).verify(savepoints(over)[0]) == []


def test_a_job_that_is_deleted_while_it_is_copied_has_no_savepoint(
    client: JobClient, over: JobContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The deletion finds no reader before it begins; then the lease keeps the files, and not the job."""
    waited: list[DeletionState] = []
    monkeypatch.setattr("airflow_provider_ha.jobs.job_stores.readers", lambda _: [])
    during_the_copy(monkeypatch, lambda: waited.append(client.delete(requested_by="a person").state))

    with pytest.raises(JobStateError, match="was deleted while its savepoint was copied"):
        take(client)

    assert waited == [DeletionState.WAITING]
    assert savepoints(over) == []
    assert over.coordinator.children(over.paths.operations) == []


def test_a_job_that_is_started_and_led_in_that_time_asks_its_driver(
    client: JobClient, cluster: Cluster, over: JobContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start() -> None:
        accepted = frozenset({Verdict.SAFE, Verdict.LOSS_POSSIBLE})
        client.submit(changed(cluster.request(JOB), request_id="again", start_from="fresh", accept_verdicts=accepted))
        started.append(cluster.led(JOB, over.coordinator))

    started: list[Any] = []
    monkeypatch.setattr("airflow_provider_ha.jobs.recovery.transactions.LOCK_SECONDS", 0.2)
    during_the_copy(monkeypatch, start)

    answer = take(client)

    assert (answer.state, answer.run) == (OperationState.REQUESTED, 2)
    assert (savepoints(over), directories(over)) == ([], [])
    started[0].release()


def test_a_lock_that_another_process_holds_is_an_error_that_leaves_nothing(
    client: JobClient, over: JobContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise LeadershipUnavailableError("another process leads")

    monkeypatch.setattr("airflow_provider_ha.jobs.operations.idle_savepoint.take_lock", refused)

    with pytest.raises(LeadershipUnavailableError):
        take(client)

    assert (savepoints(over), directories(over)) == ([], [])


def test_an_outage_in_the_middle_leaves_nothing_and_the_next_call_makes_it(
    client: JobClient, over: JobContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise StorageUnavailableError("the storage is away")

    during_the_copy(monkeypatch, fail)
    with pytest.raises(StorageUnavailableError):
        take(client)
    assert (savepoints(over), directories(over)) == ([], [])

    assert take(client).state is OperationState.COMPLETED


def test_a_schedule_does_not_fill_up_with_copies_of_one_checkpoint(client: JobClient, over: JobContext) -> None:
    first = take(client, "monday", schedule="nightly", retain=2)

    again = take(client, "tuesday", schedule="nightly", retain=2)
    own = take(client, "mine")

    assert again.result["savepoint_id"] == first.result["savepoint_id"]
    assert (again.result["new"], again.state) == (False, OperationState.COMPLETED)
    assert set(savepoints(over)) == {first.result["savepoint_id"], own.result["savepoint_id"]}


def test_limits_of_a_schedule_remove_its_older_savepoints(client: JobClient, over: JobContext) -> None:
    first = take(client, "monday", schedule="nightly", retain=1)
    with take_lock(over, 1) as leadership:
        checkpoint_store(over).subsume(leadership, 1)  # so that the next one is of another cut
        newest = checkpoint_store(over).load(checkpoint_store(over).pointer(2))
        renewed = newest.model_copy(update={"number": 3, "epoch": leadership.epoch})
        checkpoint_store(over).add(leadership, renewed)

    second = take(client, "tuesday", schedule="nightly", retain=1)

    assert second.result["disposed"] == [first.result["savepoint_id"]]
    assert savepoints(over) == [second.result["savepoint_id"]]
    assert operations.read(over.coordinator, over.paths, "tuesday") == second


def test_old_answers_are_forgotten_where_no_driver_cleans_up(
    client: JobClient, over: JobContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "KEPT_AT_MOST", 2)

    for number in range(4):
        take(client, f"ask-{number}", schedule="hourly", retain=1)

    left = {each.operation_id for each in operations.list_operations(over.coordinator, over.paths)}
    assert left == {"ask-2", "ask-3"}
