"""What a takeover leaves out of its base, because the collector knows that nothing needs it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.areas.layered.garbage import note_needs
from airflow_provider_ha.checkpoints.spark.closure import closure
from airflow_provider_ha.checkpoints.verify.verification import verify
from airflow_provider_ha.errors import FencedError
from tests.support.checkpoints.collected import DAY, FIRST, KEPT, SECOND, THIRD, World
from tests.support.checkpoints.executed import LAST
from tests.support.spark.recorded_job import QUERY


# The cached job is made by Spark when it is not there yet.
pytestmark = pytest.mark.timeout(300)

NEEDS = f"{FIRST}/{QUERY}/_ha_needs"


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A directory in which ten batches were executed, the last one two days after the others."""
    made = World(tmp_path / "storage")
    made.execute(8)
    made.pass_time()
    made.execute(9)
    return made


def note(world: World) -> None:
    """Let the collector look, and remove nothing."""
    note_needs(world.files, world.search().known, lambda: None)


def named(world: World, key: str) -> set[str]:
    return set((world.area.tree(key) / QUERY).entries())


def test_a_takeover_leaves_out_what_the_collector_knows_to_be_needless(world: World) -> None:
    note(world)

    world.take_over(SECOND)

    here = world.area.tree(SECOND) / QUERY
    needed = set().union(*(closure(here, batch, with_planned=True) for batch in range(9 - KEPT, 10)))
    assert named(world, SECOND) == needed
    world.check()


def test_a_takeover_that_knows_nothing_names_every_file(world: World) -> None:
    world.take_over(SECOND)

    assert {"commits/0", "offsets/0"} <= named(world, SECOND)


def test_what_was_written_since_the_collector_looked_is_named(world: World) -> None:
    note(world)
    world.execute(LAST)

    world.take_over(SECOND)

    assert {f"commits/{batch}" for batch in range(9 - KEPT, LAST + 1)} <= named(world, SECOND)
    world.check()


def test_needless_names_do_not_go_from_one_takeover_to_the_next(world: World) -> None:
    """The file itself is in a directory that is over: it goes as soon as no base names it."""
    world.take_over(SECOND)
    world.execute(LAST)
    assert "commits/5" in named(world, SECOND)

    note(world)
    world.take_over(THIRD)
    world.remove_others()
    world.pass_time()
    gone = world.collect()

    assert "commits/5" not in named(world, THIRD)
    assert f"{FIRST}/{QUERY}/commits/5" in gone
    world.check()


def test_a_table_that_a_task_may_have_just_uploaded_is_named(world: World) -> None:
    """No version names it yet, and one of a batch that goes on may do so."""
    young = f"{FIRST}/{QUERY}/state/0/0/SSTs/000099-young.sst"
    old = f"{FIRST}/{QUERY}/state/0/0/SSTs/000098-old.sst"
    world.files.write(young, b"uploaded")
    world.files.write(old, b"of an attempt that failed")
    aged(world, old)
    note(world)

    world.take_over(SECOND)

    tables = {name.rpartition("/")[2] for name in named(world, SECOND)}
    assert "000099-young.sst" in tables
    assert "000098-old.sst" not in tables


def aged(world: World, key: str) -> None:
    """Let one file be older than all others."""
    at = time.time() - 9 * DAY
    os.utime(world.root / key, (at, at))


@pytest.mark.parametrize("content", [b"half", b'{"kind": "needs"'], ids=["no JSON", "cut"])
def test_a_damaged_record_excludes_no_file(world: World, content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    world.files.write(NEEDS, content)

    world.take_over(SECOND)

    assert {"commits/0", "offsets/0"} <= named(world, SECOND)
    assert "the base names all files" in caplog.text


def test_the_record_of_a_newer_release_leaves_out_nothing(world: World) -> None:
    note(world)
    data = world.files.read(NEEDS)
    world.files.write(NEEDS, data.replace(b'"version":1', b'"version":99'))

    world.take_over(SECOND)

    assert "commits/0" in named(world, SECOND)


def test_a_cut_is_returned_to_though_a_takeover_would_leave_it_out(world: World) -> None:
    """What is retained after the collector has looked is none of its needs."""
    note(world)

    world.restore(FIRST, 4, SECOND)

    assert verify(world.area.tree(SECOND) / QUERY).startable
    assert "commits/4" in named(world, SECOND)


def test_entries_of_batches_whose_tables_are_gone_are_none_of_its_log(world: World) -> None:
    """The base of the directory names them until it is over."""
    world.take_over(SECOND)
    world.remove_others()
    world.execute(LAST)
    world.pass_time()

    world.collect()

    assert "commits/5" in named(world, SECOND)
    assert batches(world, SECOND) == set(range(LAST - KEPT, LAST + 1))


def batches(world: World, key: str) -> set[int]:
    entries = world.area.log_entries(f"{key}/{QUERY}")["commits"]
    return {int(name) for name in entries if name.isdigit()}  # the recorded job has checksums beside them


def test_a_log_has_all_entries_while_the_collector_has_not_looked(world: World) -> None:
    assert batches(world, FIRST) == set(range(10))


def test_the_record_is_no_file_of_the_checkpoint(world: World) -> None:
    note(world)

    assert "_ha_needs" not in named(world, FIRST)
    assert world.area.queries(FIRST) == [QUERY]


def test_the_record_goes_with_its_directory(world: World) -> None:
    note(world)
    world.restore(FIRST, 9, SECOND)
    for name, entry in world.area.tree(SECOND).entries().items():  # as when everything was brought in
        world.files.write(f"{SECOND}/{name}", world.files.read(entry.place))
    world.files.delete(f"{SECOND}/{QUERY}/_ha_base")
    world.area = type(world.area)(world.files)
    world.remove_others()
    world.pass_time()

    assert NEEDS in world.collect()


def test_needs_are_noted_by_the_leader_alone(world: World) -> None:
    def prove() -> None:
        raise FencedError("another process leads the job")

    with pytest.raises(FencedError):
        note_needs(world.files, world.search().known, prove)

    assert world.files.info(NEEDS) is None
