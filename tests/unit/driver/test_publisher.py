"""Checkpoints that cannot be taken at once: finished, cut again, or given up. Storage and Spark are stood in for."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.areas.work_area import RetainedCut
from airflow_provider_ha.checkpoints.model import Checkpoint, CheckpointKind, SinkKind
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.driver.checkpointing.origin import Origin, OriginKind
from airflow_provider_ha.driver.checkpointing.publisher import (
    MAX_WAITING,
    PIN_ATTEMPTS,
    Provenance,
    Publisher,
    requested_checkpoint,
)
from airflow_provider_ha.driver.checkpointing.savepoint_job import COPY_ATTEMPTS, SavepointJob
from airflow_provider_ha.driver.queries.query_registry import QueryRegistry, StartedQuery
from airflow_provider_ha.driver.queries.writer_notes import SinkSpec
from airflow_provider_ha.errors import (
    ApplicationRefusedError,
    CheckpointError,
    CheckpointMissingError,
    HaError,
    LeadershipLostError,
    OperationFailedError,
    OutcomeUnknownError,
    StorageError,
)
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.storage.keys import JobKeys
from tests.support.checkpoints.portable_helpers import QUERY, checkpoint


PROVENANCE = Provenance("flights", 1, "g", "4.2.0")


def cut_of(made: Checkpoint) -> dict[str, int]:
    return {query: part.batch for query, part in made.queries.items()}


class Store:
    """The checkpoints of a job: what is added fails as often as there are errors."""

    def __init__(self) -> None:
        self.added: list[Checkpoint] = []
        self.errors: list[HaError] = []
        self.trouble: HaError | None = None
        self.backlog = 0

    def next_number(self) -> int:
        return 1 + max((each.number for each in self.added), default=0)

    def add(self, leadership: object, made: Checkpoint) -> None:
        if self.errors:
            raise self.errors.pop(0)
        self.added.append(made)

    def waiting(self) -> int:
        return self.backlog

    def list(self) -> list[Any]:
        return [SimpleNamespace(number=each.number, run=each.run, cut=cut_of(each)) for each in self.added[::-1]]

    def pointer(self, number: int) -> Checkpoint:
        return next(made for made in self.added if made.number == number)

    def load(self, pointer: Checkpoint) -> Checkpoint:
        return pointer

    def subsume(self, leadership: object, retained: int) -> None:
        if self.trouble is not None:
            raise self.trouble


class Area:
    """Pins cuts; the first ones are purged while they are linked."""

    def __init__(self) -> None:
        self.purged = 0
        self.pinned: list[str] = []
        self.before: Callable[[], None] = lambda: None

    def retain(self, source: str, target: str, cut: dict[str, int], *, sinks: object) -> RetainedCut:
        self.before()
        if self.purged:
            self.purged -= 1
            raise CheckpointMissingError("a file of the closure is gone")
        self.pinned.append(target)
        return RetainedCut(target, {query: {} for query in cut})


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def area() -> Area:
    return Area()


@pytest.fixture
def registry(tmp_path: Path) -> QueryRegistry:
    registry = QueryRegistry(SystemClock())
    directory = checkpoint(tmp_path / "live" / QUERY)
    registry.add(StartedQuery(QUERY, None, SinkSpec(SinkKind.OTHER, "noop"), LocalTree(directory)))
    registry.script_waits()
    return registry


def publisher_of(store: Store, area: Area, registry: QueryRegistry, tmp_path: Path) -> Publisher:
    """Return the publisher of a driver that has started now."""
    anything: Any = SimpleNamespace(epoch=1)
    stores: Any = store
    areas: Any = area
    return Publisher(
        store=stores,
        leadership=anything,
        registry=registry,
        origin=Origin(OriginKind.FRESH, "live/e1-a", LocalTree(tmp_path / "live"), (tmp_path / "live").as_uri()),
        provenance=PROVENANCE,
        options=HaOptions(),
        area=areas,
        clock=SystemClock(),
    )


@pytest.fixture
def publisher(store: Store, area: Area, registry: QueryRegistry, tmp_path: Path) -> Publisher:
    return publisher_of(store, area, registry, tmp_path)


def test_drivers_that_fail_before_they_commit_take_no_checkpoint_of_the_same_cut(
    store: Store, area: Area, registry: QueryRegistry, tmp_path: Path
) -> None:
    for _ in range(4):
        publisher_of(store, area, registry, tmp_path).tick()

    assert [made.number for made in store.added] == [1]


def test_a_driver_that_fell_back_takes_a_checkpoint_although_a_newer_cut_has_one(
    store: Store, area: Area, registry: QueryRegistry, tmp_path: Path, commit: Callable[[int], None]
) -> None:
    commit(3)
    publisher_of(store, area, registry, tmp_path).tick()
    (tmp_path / "live" / QUERY / "commits" / "3").unlink()

    publisher_of(store, area, registry, tmp_path).tick()

    assert [cut_of(made) for made in store.added] == [{QUERY: 3}, {QUERY: 2}]


@pytest.mark.parametrize("running", [False, True])
def test_a_run_that_begins_from_a_checkpoint_takes_its_first_one_when_it_is_running(
    store: Store, area: Area, registry: QueryRegistry, tmp_path: Path, running: bool
) -> None:
    started = registry.started[0]
    registry.add(replace(started, committed_before=2))
    registry.running = running

    publisher_of(store, area, registry, tmp_path).tick()

    assert len(store.added) == running


def test_a_checkpoint_whose_answer_was_lost_is_finished_and_not_pinned_again(
    publisher: Publisher, store: Store, area: Area
) -> None:
    store.errors.append(OutcomeUnknownError("no answer"))
    with pytest.raises(OutcomeUnknownError):
        publisher.publish(CheckpointKind.PERIODIC)

    finished = publisher.publish(CheckpointKind.PERIODIC)

    assert (finished.number, [made.number for made in store.added], len(area.pinned)) == (1, [1], 1)


def test_a_stop_finishes_what_was_begun_and_takes_its_own_checkpoint(publisher: Publisher, store: Store) -> None:
    store.errors.append(OutcomeUnknownError("no answer"))
    with pytest.raises(OutcomeUnknownError):
        publisher.publish(CheckpointKind.PERIODIC)

    publisher.publish(CheckpointKind.STOP)

    assert [(made.number, made.reason) for made in store.added] == [
        (1, CheckpointKind.PERIODIC),
        (2, CheckpointKind.STOP),
    ]


def test_a_number_that_was_refused_for_good_is_not_tried_again(publisher: Publisher, store: Store) -> None:
    store.errors.append(StorageError("the name is taken"))
    with pytest.raises(StorageError):
        publisher.publish(CheckpointKind.PERIODIC)

    assert publisher.publish(CheckpointKind.PERIODIC).number == 2


def test_a_cut_that_is_purged_while_it_is_pinned_is_taken_again(publisher: Publisher, store: Store, area: Area) -> None:
    area.purged = PIN_ATTEMPTS - 1

    publisher.publish(CheckpointKind.PERIODIC)

    assert [made.number for made in store.added] == [1]


def test_a_job_that_purges_faster_than_it_can_be_pinned_has_no_checkpoint(
    publisher: Publisher, store: Store, area: Area
) -> None:
    area.purged = PIN_ATTEMPTS

    with pytest.raises(CheckpointMissingError, match="a file of the closure is gone"):
        publisher.publish(CheckpointKind.PERIODIC)

    assert store.added == []


def test_a_job_whose_queries_begin_to_be_started_during_each_cut_has_no_checkpoint(
    publisher: Publisher, store: Store, registry: QueryRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, started = iter(range(10**6)), registry.members
    monkeypatch.setattr(QueryRegistry, "members", property(lambda _: started * (1 + next(looks) % 2)))

    with pytest.raises(CheckpointError, match="checkpoint 1 could not be pinned"):
        publisher.publish(CheckpointKind.PERIODIC)

    assert store.added == []


def test_a_former_leader_stops_after_its_checkpoint(publisher: Publisher, store: Store) -> None:
    store.trouble = LeadershipLostError("the lease ran out")

    with pytest.raises(LeadershipLostError):
        publisher.publish(CheckpointKind.PERIODIC)


@pytest.fixture
def commit(tmp_path: Path) -> Callable[[int], None]:
    """Have the query commit one batch more."""
    commits = tmp_path / "live" / QUERY / "commits"

    def committed(batch: int) -> None:
        (commits.parent / "offsets" / str(batch)).write_text((commits.parent / "offsets" / "0").read_text())
        (commits / str(batch)).write_text((commits / "0").read_text())

    return committed


def newest_batch(tmp_path: Path) -> int:
    return max(int(path.name) for path in (tmp_path / "live" / QUERY / "commits").iterdir() if path.name.isdigit())


def test_a_requested_checkpoint_holds_all_that_is_committed(publisher: Publisher, tmp_path: Path) -> None:
    answer = requested_checkpoint(publisher)

    assert answer == {
        "checkpoint": 1,
        "path": JobKeys("flights").pin(1, 1),
        "cut": {QUERY: newest_batch(tmp_path)},
        "new": True,
    }


def test_an_idle_job_answers_with_its_newest_checkpoint(publisher: Publisher, store: Store) -> None:
    first = requested_checkpoint(publisher)

    again = requested_checkpoint(publisher)

    assert again == first | {"new": False}
    assert len(store.added) == 1


def test_a_request_does_not_wait_for_the_interval(
    publisher: Publisher, store: Store, commit: Callable[[int], None], tmp_path: Path
) -> None:
    publisher.publish(CheckpointKind.PERIODIC)
    commit(newest_batch(tmp_path) + 1)
    assert publisher.tick() is None, "the interval is not over"

    answer = requested_checkpoint(publisher)

    assert (answer["checkpoint"], answer["new"]) == (2, True)
    assert answer["cut"] == {QUERY: newest_batch(tmp_path)}


def test_a_checkpoint_that_was_begun_before_is_finished_and_is_no_answer_for_newer_batches(
    publisher: Publisher, store: Store, commit: Callable[[int], None], tmp_path: Path
) -> None:
    store.errors.append(OutcomeUnknownError("no answer"))
    with pytest.raises(OutcomeUnknownError):
        publisher.publish(CheckpointKind.PERIODIC)
    commit(newest_batch(tmp_path) + 1)

    answer = requested_checkpoint(publisher)

    assert [made.number for made in store.added] == [1, 2]
    assert (answer["checkpoint"], answer["cut"]) == (2, {QUERY: newest_batch(tmp_path)})


def test_a_job_without_a_batch_has_no_checkpoint_to_take(publisher: Publisher, store: Store, tmp_path: Path) -> None:
    for path in (tmp_path / "live" / QUERY / "commits").iterdir():
        path.unlink()

    with pytest.raises(CheckpointMissingError, match="has not committed a batch yet"):
        requested_checkpoint(publisher)

    assert store.added == []


def test_a_request_is_refused_while_too_many_old_checkpoints_wait_to_be_removed(
    publisher: Publisher, store: Store
) -> None:
    store.backlog = MAX_WAITING + 1

    with pytest.raises(CheckpointError, match="wait to be removed"):
        requested_checkpoint(publisher)

    assert store.added == []


def savepoints(registry: QueryRegistry, live: Path, purged: int) -> tuple[SavepointJob, list[dict[str, int]]]:
    """Return the maker of savepoints whose copies are purged that often, and the cuts that it copied."""
    cuts: list[dict[str, int]] = []

    def create(commit: object, request: Any, _: Path) -> Any:
        cuts.append(request.cut)
        if len(cuts) <= purged:
            raise CheckpointMissingError("a file of the closure is gone")
        return SimpleNamespace(savepoint_id=request.savepoint_id)

    store: Any = SimpleNamespace(has=lambda _: False, create=create)
    leadership: Any = SimpleNamespace(epoch=1, commit=None)
    return SavepointJob(
        store, leadership, registry, PROVENANCE, LocalTree(live), lambda name: LocalTree(live / name)
    ), cuts


ASKED: Any = SimpleNamespace(operation_id="s1", operation="savepoint", arguments={"label": "", "schedule": None})


@pytest.mark.parametrize("purged", [0, COPY_ATTEMPTS - 1])
def test_a_savepoint_whose_cut_is_purged_is_of_another_cut(
    registry: QueryRegistry, tmp_path: Path, purged: int
) -> None:
    maker, cuts = savepoints(registry, tmp_path / "live", purged)

    assert maker.create(ASKED)["savepoint_id"] == "s1"

    assert len(cuts) == purged + 1


def test_a_savepoint_that_is_always_purged_fails(registry: QueryRegistry, tmp_path: Path) -> None:
    maker, cuts = savepoints(registry, tmp_path / "live", COPY_ATTEMPTS)

    with pytest.raises(CheckpointMissingError):
        maker.create(ASKED)

    assert len(cuts) == COPY_ATTEMPTS


def test_half_a_job_has_no_savepoint(tmp_path: Path) -> None:
    maker, cuts = savepoints(QueryRegistry(SystemClock()), tmp_path, 0)

    with pytest.raises(OperationFailedError, match="has not started all its queries yet"):
        maker.create(ASKED)

    assert cuts == []


@pytest.mark.parametrize(("batch", "refused"), [(2, False), (3, True)])
def test_a_look_refuses_a_query_whose_batch_is_not_in_its_directory(
    publisher: Publisher, registry: QueryRegistry, tmp_path: Path, batch: int, refused: bool
) -> None:
    said = {"timestamp": "2026-01-01T00:00:00.000Z", "batchId": batch, "durationMs": {"addBatch": 5}}
    reported = SimpleNamespace(json=lambda: json.dumps(said))
    handle = SimpleNamespace(_jsq=SimpleNamespace(lastProgress=lambda: reported))
    directory = LocalTree(tmp_path / "live" / QUERY)
    registry.add(StartedQuery(QUERY, handle, SinkSpec(SinkKind.OTHER, "noop"), directory))

    if refused:
        with pytest.raises(ApplicationRefusedError, match=f"has committed batch {batch}"):
            publisher.tick()
    else:
        publisher.tick()
