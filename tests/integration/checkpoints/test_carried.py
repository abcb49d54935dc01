"""What a lost epoch had recorded and not published stays known, over one loss and over several."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.areas.linked_work_area import LinkedWorkArea
from airflow_provider_ha.checkpoints.areas.pins import pin
from airflow_provider_ha.checkpoints.areas.working_records import carry, read_carried, record
from airflow_provider_ha.checkpoints.model import QueryCut, QuerySink, SinkKind
from airflow_provider_ha.checkpoints.restore.facts import RestoreCase, gather_facts
from airflow_provider_ha.checkpoints.restore.plan_execution import prepare_recovery
from airflow_provider_ha.checkpoints.restore.query_records import LastDirectory, following
from airflow_provider_ha.checkpoints.restore.select import RestoreSource
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.driver.checkpointing.progress import BatchRecorder, Lengths
from tests.support.spark.recorded_job import QUERY, copy_live


LAST = 13
pytestmark = pytest.mark.timeout(300)


def recover(fenced: Path, target: Path, published: int) -> Path:
    target.mkdir()
    forked = prepare_recovery(LinkedWorkArea(target.parent), fenced.name, target.name)
    carry(LocalTree(fenced), LocalTree(target), forked, {QUERY: published})
    return target


def batches(directory: Path) -> list[int]:
    return [entry.batch for entry in read_carried(LocalTree(directory))[QUERY]]


def test_batches_since_the_newest_checkpoint_survive_two_losses(tmp_path: Path) -> None:
    live = copy_live(tmp_path / "e1")
    written = {entry.batch: entry for entry in record(LocalTree(live / QUERY), after=-1)}

    second = recover(live, tmp_path / "e2", published=6)
    third = recover(second, tmp_path / "e3", published=6)

    assert [entry.batch for entry in record(LocalTree(third / QUERY), after=-1)] == [LAST - 1, LAST]
    assert batches(second) == batches(third) == list(range(6, LAST + 1))
    assert read_carried(LocalTree(third))[QUERY] == tuple(written[batch] for batch in range(6, LAST + 1))


def test_what_a_checkpoint_holds_is_not_carried_on(tmp_path: Path) -> None:
    second = recover(copy_live(tmp_path / "e1"), tmp_path / "e2", published=4)

    third = recover(second, tmp_path / "e3", published=LAST)

    assert batches(third) == [LAST]


def test_restore_to_before_a_loss_knows_every_batch_although_the_lost_directory_is_gone(tmp_path: Path) -> None:
    """Without it the plan would be LOSS_POSSIBLE: the fork shows batches 12 and 13 only."""
    live = copy_live(tmp_path / "e1")
    pin(live, tmp_path / "pin", {QUERY: 6})
    second = recover(live, tmp_path / "e2", published=6)
    shutil.rmtree(live)
    now = datetime.now(timezone.utc)
    cut = QueryCut(batch=6, sink=QuerySink(kind=SinkKind.FOREACH_BATCH))
    chosen = RestoreSource("checkpoint", "1", "pin", {QUERY: cut}, 1, 1, "g", "4.2.0", now)

    last = LastDirectory(LinkedWorkArea(tmp_path.parent), f"{tmp_path.name}/{second.name}", epoch=2, run=1)
    facts = gather_facts(RestoreCase(chosen=chosen, at=now, root=LocalTree(tmp_path / "pin"), last=last))

    replayed = [entry.batch for entry in following(facts.queries[QUERY].history, 6)]
    assert replayed == list(range(7, LAST + 1))
    assert facts.queries[QUERY].planned_to == LAST


def test_recorder_of_the_next_epoch_publishes_what_was_carried(tmp_path: Path) -> None:
    second = recover(copy_live(tmp_path / "e1"), tmp_path / "e2", published=6)
    recorder = BatchRecorder(LocalTree(second / QUERY), read_carried(LocalTree(second))[QUERY])

    recorder.poll()

    assert recorder.entries() == read_carried(LocalTree(second))[QUERY]
    recorder.published(recorder.entries())
    assert recorder.entries() == ()


def test_lengths_that_are_told_later_are_recorded_with_their_batch_and_with_no_other(tmp_path: Path) -> None:
    asked: dict[int, Callable[[Lengths], None]] = {}
    recorder = BatchRecorder(
        LocalTree(copy_live(tmp_path / "e1") / QUERY), measure=lambda entry, done: asked.update({entry.batch: done})
    )
    recorder.poll()
    recorder.poll()
    first, *rest = sorted(asked)
    before = recorder.entries()

    asked[first]({"0": (7,)})

    lengths = {entry.batch: entry.lengths for entry in recorder.entries() if entry.lengths}
    assert (lengths, {entry.batch: entry.lengths for entry in before if entry.lengths}) == ({first: {"0": (7,)}}, {})
    recorder.published(recorder.entries())
    asked[rest[0]]({"0": (8,)})
    assert all(not entry.lengths for entry in recorder.entries())
