"""The fence without renames: the entry that the old driver needs next is taken, or the old driver was faster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.areas.layered.layered_work_area import LayeredWorkArea
from airflow_provider_ha.checkpoints.areas.layered.takeover import ATTEMPTS, next_entry, occupy
from airflow_provider_ha.checkpoints.areas.work_area import Successor
from airflow_provider_ha.checkpoints.areas.working_records import StartedQueries, write_started
from airflow_provider_ha.checkpoints.model import QuerySink, SinkKind
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import FenceRecord, Progress, fence_at
from airflow_provider_ha.errors import CheckpointCorruptError, StorageUnavailableError
from airflow_provider_ha.storage.local_store import LocalStore
from airflow_provider_ha.storage.object_store import ObjectInfo
from tests.support.checkpoints.layered_files import FIRST, LayeredFiles
from tests.support.checkpoints.portable_helpers import QUERY


RECORD = FenceRecord(8, "s-1", "5e1c", "now")


class Faster(LocalStore):
    """Files in which something happens right before an entry is created."""

    def __init__(self, root: Path, *, before: Callable[[], None], times: int = 1) -> None:
        super().__init__(root)
        self._before = before
        self.left = times

    def create(self, key: str, data: bytes, *, writer: str = "") -> None:
        if self.left:
            self.left -= 1
            self._before()
        super().create(key, data, writer=writer)


class BetweenListings(LocalStore):
    """Files in which something happens once, after the offsets are listed and before the commits are."""

    def __init__(self, root: Path, happens: Callable[[], object]) -> None:
        super().__init__(root)
        self._happens = [happens]

    def list(self, prefix: str, *, markers: bool = False) -> Iterator[ObjectInfo]:
        if prefix.endswith("commits/") and self._happens:
            self._happens.pop()()
        return super().list(prefix, markers=markers)


@pytest.mark.parametrize(
    ("planned", "committed", "entry"),
    [(-1, -1, "offsets/0"), (4, 4, "offsets/5"), (4, 3, "commits/4"), (0, -1, "commits/0")],
)
def test_the_entry_is_the_one_that_the_old_driver_needs_next(planned: int, committed: int, entry: str) -> None:
    assert next_entry(Progress(planned, committed)) == entry


@pytest.mark.parametrize(("planned", "committed"), [(5, 3), (3, 5)])
def test_a_log_with_gaps_cannot_be_fenced(planned: int, committed: int) -> None:
    with pytest.raises(CheckpointCorruptError):
        next_entry(Progress(planned, committed))


def test_a_driver_that_plans_first_is_fenced_at_its_commit(job: LayeredFiles) -> None:
    files = Faster(job.root, before=lambda: job.plan(FIRST, 3))

    slot = occupy(files, f"{FIRST}/{QUERY}", job.area.tree(FIRST) / QUERY, RECORD)

    assert (slot.at, slot.entry, slot.attempts) == (Progress(3, 2), "commits/3", 2)


def test_a_driver_that_commits_first_is_fenced_at_its_next_plan(job: LayeredFiles) -> None:
    job.plan(FIRST, 3)
    files = Faster(job.root, before=lambda: job.commit(FIRST, 3))

    slot = occupy(files, f"{FIRST}/{QUERY}", job.area.tree(FIRST) / QUERY, RECORD)

    assert (slot.at, slot.entry, slot.attempts) == (Progress(3, 3), "offsets/4", 2)


def test_a_driver_that_is_always_faster_is_no_fence(job: LayeredFiles) -> None:
    batches = iter(range(3, 1000))
    files = Faster(job.root, before=lambda: job.commit(FIRST, next(batches)), times=1000)

    with pytest.raises(StorageUnavailableError, match=f"each of {ATTEMPTS} entries first"):
        occupy(files, f"{FIRST}/{QUERY}", job.area.tree(FIRST) / QUERY, RECORD)


def test_a_purge_of_another_process_between_look_and_slot_is_seen(job: LayeredFiles) -> None:
    """What was there at the look, and is not any more, is no place to go on from."""
    files = Faster(job.root, before=lambda: (job.query(FIRST) / "commits" / "2").unlink())

    slot = occupy(files, f"{FIRST}/{QUERY}", job.area.tree(FIRST) / QUERY, RECORD)

    assert slot.at == Progress(2, 1)


def test_a_fence_of_another_leader_counts(job: LayeredFiles) -> None:
    first = occupy(job.files, f"{FIRST}/{QUERY}", job.area.tree(FIRST) / QUERY, RECORD)

    again = occupy(job.files, f"{FIRST}/{QUERY}", job.area.tree(FIRST) / QUERY, FenceRecord(9, "s-2", "other", "later"))

    assert again == first
    assert fence_at(job.area.tree(FIRST) / QUERY, first.entry) == RECORD


def test_a_driver_that_continues_between_two_listings_is_fenced(job: LayeredFiles) -> None:
    files = BetweenListings(job.root, lambda: job.commit(FIRST, 3))

    slot = occupy(files, f"{FIRST}/{QUERY}", LayeredWorkArea(files).tree(FIRST) / QUERY, RECORD)

    assert (slot.at, slot.entry) == (Progress(3, 3), "offsets/4")


def test_a_fence_of_another_leader_between_two_listings_counts_in_its_slot(job: LayeredFiles) -> None:
    def continue_until_fenced() -> None:
        job.commit(FIRST, 3)
        job.plan(FIRST, 4)
        occupy(job.files, f"{FIRST}/{QUERY}", job.area.tree(FIRST) / QUERY, RECORD)

    files = BetweenListings(job.root, continue_until_fenced)

    slot = occupy(files, f"{FIRST}/{QUERY}", LayeredWorkArea(files).tree(FIRST) / QUERY, RECORD)

    assert (slot.at, slot.entry) == (Progress(4, 3), "commits/4")


def test_downstream_queries_are_fenced_first(job: LayeredFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query that reads what another one has written is never behind a fence that the other one has not."""
    job.run(FIRST, query="up")
    started = StartedQueries()
    for query in ("up", QUERY):
        started = started.including(query, QuerySink(kind=SinkKind.OTHER))
    write_started(job.area.tree(FIRST), started)
    created: list[str] = []
    plain = LocalStore.create

    def create(self: LocalStore, key: str, data: bytes, *, writer: str = "") -> None:
        created.append(key)
        plain(self, key, data, writer=writer)

    monkeypatch.setattr(LocalStore, "create", create)
    job.area.fence(FIRST, by=Successor(8, "s-1"))

    assert created == [f"{FIRST}/{QUERY}/offsets/3", f"{FIRST}/up/offsets/3"]


def test_a_query_that_was_about_to_be_started_never_plans(job: LayeredFiles) -> None:
    write_started(job.area.tree(FIRST), StartedQueries().including("late", QuerySink(kind=SinkKind.OTHER)))

    job.area.fence(FIRST, by=Successor(8, "s-1"))

    record = fence_at(job.area.tree(FIRST) / "late", "offsets/0")
    assert record is not None
    assert (record.epoch, record.submission) == (8, "s-1")


def test_a_query_that_is_noted_while_the_directory_is_listed_never_plans(
    job: LayeredFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = LocalStore.names

    def names(self: LocalStore, prefix: str) -> Sequence[str]:
        found = plain(self, prefix)
        if prefix == f"{FIRST}/":
            write_started(job.area.tree(FIRST), StartedQueries().including("late", QuerySink(kind=SinkKind.OTHER)))
        return found

    monkeypatch.setattr(LocalStore, "names", names)
    job.area.fence(FIRST, by=Successor(8, "s-1"))

    assert fence_at(job.area.tree(FIRST) / "late", "offsets/0") is not None
