"""What the collector takes of working directories that share files, and what it never takes."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.areas.layered.garbage import (
    GRACE,
    REMOVALS_PER_PROOF,
    SLOT_GRACE,
    Garbage,
    GarbageReason,
    remove,
    time_of,
)
from airflow_provider_ha.checkpoints.areas.layered.layered_tree import MARKER, REMOVED
from airflow_provider_ha.checkpoints.areas.layered.layered_work_area import LayeredWorkArea
from airflow_provider_ha.checkpoints.areas.layered.needs import is_table
from airflow_provider_ha.checkpoints.verify.verification import verify
from airflow_provider_ha.errors import (
    CheckpointCorruptError,
    CheckpointMissingError,
    FencedError,
    StorageUnavailableError,
)
from airflow_provider_ha.storage.durable import PREPARED
from airflow_provider_ha.storage.keys import JobKeys
from tests.support.checkpoints.collected import DAY, FIRST, SECOND, THIRD, Failing, KilledError, World
from tests.support.checkpoints.executed import LAST
from tests.support.spark.recorded_job import QUERY


# The cached job is made by Spark when it is not there yet.
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = World(tmp_path_factory.mktemp("made") / "storage")
    made.execute(8)
    made.pass_time()
    made.execute(9)
    return made.root


@pytest.fixture
def world(made: Path, tmp_path: Path) -> World:
    """A directory in which ten batches were executed, the last one two days after the others."""
    shutil.copytree(made, tmp_path / "storage")
    return World(tmp_path / "storage")


def own(world: World, key: str) -> set[str]:
    return {file.key.removeprefix(f"{key}/{QUERY}/") for file in world.files.list(f"{key}/")}


def age(world: World, name: str) -> str:
    """Let one file of the first directory be older than all others."""
    old = time.time() - 9 * DAY
    os.utime(world.root / FIRST / QUERY / name, (old, old))
    return name


def test_what_spark_would_have_purged_goes(world: World) -> None:
    world.collect()

    left = own(world, FIRST)
    assert {name for name in left if name.startswith("commits/") and name[8:].isdigit()} == {
        "commits/7",
        "commits/8",
        "commits/9",
    }
    assert {name.split("/")[-1].split("_")[0] for name in left if name.endswith(".zip")} == {"8", "9", "10"}
    world.check()


def test_what_is_collected_once_is_not_found_again(world: World) -> None:
    world.collect()

    assert world.search().garbage == []


def test_nothing_goes_that_was_written_within_a_day_before_the_last_commit(tmp_path: Path) -> None:
    made = World(tmp_path / "storage")
    made.execute(9)
    made.pass_time(3 * DAY)

    assert made.search().garbage == []


def test_what_a_task_uploads_in_a_batch_of_days_stays(world: World) -> None:
    """No version names its tables yet, and the batch was begun long ago."""
    table = f"{FIRST}/{QUERY}/state/0/0/SSTs/000099-aaaa.sst"
    world.files.write(table, b"uploaded")
    world.pass_time(5 * DAY)

    world.collect()

    assert world.files.info(table) is not None


def test_a_file_of_no_known_kind_stays(world: World) -> None:
    strange = f"{FIRST}/{QUERY}/state/0/0/something"
    world.files.write(strange, b"")
    age(world, "state/0/0/something")

    world.collect()

    assert world.files.info(strange) is not None


def test_what_a_retained_cut_needs_stays(world: World) -> None:
    world.cuts = {FIRST: {QUERY: {3}}}

    world.collect()

    assert "commits/3" in own(world, FIRST)
    world.check()


def test_the_record_of_a_takeover_stays_where_a_cut_is_retained(world: World) -> None:
    world.cuts = {FIRST: {QUERY: {9}}}
    world.take_over(SECOND)
    slot = age(world, "offsets/10")

    world.collect()

    assert slot in own(world, FIRST)


def test_state_above_the_last_commit_stays_however_old_it_is(world: World) -> None:
    world.files.write(f"{FIRST}/{QUERY}/state/0/0/12_later.zip", b"of a batch that is not committed")
    later = age(world, "state/0/0/12_later.zip")

    world.collect()

    assert later in own(world, FIRST)


def test_what_a_base_names_stays_when_its_directory_is_over(world: World) -> None:
    world.take_over(SECOND)
    world.remove_others()
    world.pass_time()

    world.collect()

    base = [entry for name, entry in world.area.tree(SECOND).entries().items() if not is_table(name)]
    assert all(world.files.info(entry.place) is not None for entry in base)
    world.check()


def test_a_table_that_a_base_names_goes_when_no_batch_has_it(world: World) -> None:
    """A takeover names all tables that there are; without this, none of them would ever go."""
    needless = age(world, write_table(world, "000099-aaaa.sst"))
    world.take_over(SECOND)
    world.remove_others()
    world.execute(LAST)
    world.pass_time()

    gone = world.collect()

    assert f"{FIRST}/{QUERY}/{needless}" in gone
    assert not any(key.endswith(".zip") and key.startswith(FIRST) for key in gone)
    world.check()


def test_a_table_that_a_base_names_stays_while_it_may_be_of_a_batch_that_goes_on(world: World) -> None:
    table = write_table(world, "000099-aaaa.sst")
    world.take_over(SECOND)
    world.remove_others()
    world.pass_time()

    assert f"{FIRST}/{QUERY}/{table}" not in world.collect()


def write_table(world: World, name: str) -> str:
    world.files.write(f"{FIRST}/{QUERY}/state/0/0/SSTs/{name}", b"of an attempt that failed")
    return f"state/0/0/SSTs/{name}"


def test_what_a_zombie_leaves_in_a_directory_that_is_over_goes_when_it_is_old(world: World) -> None:
    """It goes on at full speed beside the new epoch, and writes once more after the directory is over."""
    world.take_over(SECOND)
    world.files.write(f"{FIRST}/{QUERY}/state/0/0/11_late.zip", b"of the zombie")
    world.remove_others()
    world.pass_time()
    world.files.write(f"{FIRST}/{QUERY}/state/0/0/12_later.zip", b"of the zombie")

    gone = world.collect()

    assert f"{FIRST}/{QUERY}/state/0/0/11_late.zip" in gone
    assert f"{FIRST}/{QUERY}/state/0/0/12_later.zip" not in gone
    world.check()


def test_a_directory_is_left_alone_for_a_day_after_it_is_over(world: World) -> None:
    world.pass_time()
    world.take_over(SECOND)
    world.execute(LAST)
    world.remove_others()

    assert not [item for item in world.search().garbage if item.why is GarbageReason.OVER]


def replaced_and_over(world: World) -> None:
    """Let the first directory be over, and no base name a file of it."""
    world.cuts = {FIRST: {QUERY: {9}}}
    world.take_over(SECOND)
    tree = world.area.tree(SECOND)
    for name in tree.entries():  # as when everything was brought in
        (world.root / SECOND / name).parent.mkdir(parents=True, exist_ok=True)
        (world.root / SECOND / name).write_bytes(tree.read(name))
    world.files.delete(f"{SECOND}/{QUERY}/_ha_base")
    world.cuts = {}
    world.area = LayeredWorkArea(world.files)
    world.remove_others()


def test_the_fence_and_the_mark_stay_for_a_month(world: World) -> None:
    replaced_and_over(world)
    world.pass_time(SLOT_GRACE.total_seconds() - DAY)

    world.collect()

    assert {file.key.removeprefix(f"{FIRST}/") for file in world.files.list(f"{FIRST}/")} == {
        MARKER,
        REMOVED,
        f"{QUERY}/offsets/10",
    }


def test_after_a_month_nothing_is_left_and_the_mark_went_last(world: World) -> None:
    replaced_and_over(world)
    world.pass_time(SLOT_GRACE.total_seconds() + DAY)

    gone = [key for key in world.collect() if key.startswith(FIRST)]

    assert (list(world.files.list(f"{FIRST}/")), gone[-1]) == ([], f"{FIRST}/{REMOVED}")


def test_a_retained_cut_in_a_directory_that_is_marked_as_over_is_whole(world: World) -> None:
    replaced_and_over(world)
    world.cuts = {FIRST: {QUERY: {9}}}
    world.pass_time(SLOT_GRACE.total_seconds() * 2)

    world.collect()

    world.check()


def test_what_was_not_written_to_its_end_goes_after_a_day(world: World) -> None:
    for name in ("old", "young"):
        world.files.write(f"{FIRST}/{QUERY}/{PREPARED}{name}", b"begun")
    old = time.time() - GRACE.total_seconds() - 60
    os.utime(world.root / FIRST / QUERY / f"{PREPARED}old", (old, old))

    assert [item.key for item in world.search().garbage if item.why is GarbageReason.UNFINISHED] == [
        f"{FIRST}/{QUERY}/{PREPARED}old"
    ]


def test_bases_are_read_before_a_file_is_listed(world: World) -> None:
    """A directory that is made in between names files of directories that were looked at, none of which is garbage."""
    world.take_over(SECOND)
    watched = Failing(world.files)

    world.search(watched)

    last_base = max(at for at, call in enumerate(watched.calls) if call == ("read", f"{SECOND}/{QUERY}/_ha_base"))
    assert last_base < min(at for at, (name, _) in enumerate(watched.calls) if name == "list")


def test_a_directory_that_is_retained_and_not_there_ends_the_search(world: World) -> None:
    world.cuts = {THIRD: {QUERY: {1}}}

    with pytest.raises(CheckpointCorruptError, match="retained or current, but missing"):
        world.search()


def test_a_base_that_cannot_be_read_ends_the_search(world: World) -> None:
    world.take_over(SECOND)
    (world.root / SECOND / QUERY / "_ha_base").write_bytes(b"half")

    with pytest.raises(CheckpointCorruptError):
        world.search()


def test_a_file_that_a_retained_cut_needs_and_is_gone_ends_the_search(world: World) -> None:
    world.cuts = {FIRST: {QUERY: {3}}}
    world.files.delete(f"{FIRST}/{QUERY}/commits/3")

    with pytest.raises(CheckpointMissingError):
        world.search()


def half_made(world: World) -> None:
    """Let a restore begin to copy into another directory, and die."""
    world.area.create(THIRD)
    for name in ("metadata", "commits/9", "offsets/9"):
        world.files.write(f"{THIRD}/{QUERY}/{name}", world.area.tree(FIRST).read(f"{QUERY}/{name}"))


def test_a_directory_whose_maker_died_stays_as_it_is_and_stops_nothing(world: World) -> None:
    half_made(world)

    gone = world.collect()

    assert (bool(gone), [key for key in gone if key.startswith(THIRD)]) == (True, [])
    world.check()


def test_a_current_directory_that_is_not_whole_ends_the_search(world: World) -> None:
    half_made(world)
    world.current = THIRD

    with pytest.raises(CheckpointMissingError):
        world.search()


def test_nothing_goes_when_any_read_fails(world: World) -> None:
    world.take_over(SECOND)
    world.cuts = {FIRST: {QUERY: {3}}}
    counted = Failing(world.files)
    world.search(counted)
    before = list(world.files.list(""))

    for at in range(len(counted.calls)):
        failing = Failing(world.files, at, StorageUnavailableError("the storage is away"))
        with pytest.raises(StorageUnavailableError):
            world.collect(failing)

    assert list(world.files.list("")) == before


@pytest.mark.long
def test_a_collection_that_is_killed_at_any_step_leaves_all_that_is_needed(world: World) -> None:
    world.cuts = {FIRST: {QUERY: {3}}}
    world.take_over(SECOND)
    world.execute(LAST)
    world.files.write(f"{FIRST}/{QUERY}/state/0/0/20_late.zip", b"of the zombie")
    world.pass_time()
    kills = 0
    while True:
        found = world.search()
        if not found.garbage:
            break
        # One removal, and the process ends at the next call.
        failing: Any = Failing(world.files, 1)
        with pytest.raises(KilledError):
            list(remove(failing, [found.garbage[0], *found.garbage], lambda: None))
        kills += 1
        world.check()

    assert kills > 10


def test_a_leader_that_was_deposed_removes_nothing(world: World) -> None:
    before = list(world.files.list(""))

    def deposed() -> None:
        raise FencedError("another epoch owns the job")

    with pytest.raises(FencedError):
        world.collect(prove=deposed)

    assert list(world.files.list("")) == before


def test_a_leader_that_is_deposed_in_the_middle_stops_after_so_many() -> None:
    proofs = 0
    removed: list[str] = []

    class Files:
        def delete(self, key: str) -> None:
            removed.append(key)

    def prove() -> None:
        nonlocal proofs
        proofs += 1
        if proofs > 1:
            raise FencedError("another epoch owns the job")

    garbage = [Garbage(str(number), 1, GarbageReason.PURGED) for number in range(REMOVALS_PER_PROOF * 3)]
    with pytest.raises(FencedError):
        for _ in remove(Files(), garbage, prove):  # type: ignore[arg-type]
            pass

    assert len(removed) == REMOVALS_PER_PROOF


def test_a_takeover_between_the_search_and_the_removal_finds_all_that_it_needs(world: World) -> None:
    """The collector was frozen after its proof: it removes what it found for the epoch before."""
    found = world.search()
    world.take_over(SECOND)

    for _ in remove(world.files, found.garbage, lambda: None):
        pass

    world.check()
    world.execute(LAST)
    world.check()


def test_a_removal_whose_file_is_gone_already_goes_on(world: World) -> None:
    found = world.search()
    world.files.delete(found.garbage[0].key)

    gone = list(remove(world.files, found.garbage, lambda: None))

    assert len(gone) == len(found.garbage)


def test_the_storages_own_clock_says_how_old_files_are(world: World) -> None:
    before = list(world.files.list(""))

    now = time_of(world.files)

    assert abs(now - time.time() * 1000) < 60_000
    assert list(world.files.list("")) == before


def test_a_fork_for_another_job_names_no_file_of_this_one(world: World) -> None:
    """Each collector reads the bases of one job."""
    target = f"{JobKeys('other').live}e1-x"
    world.area.create(target)

    world.area.fork(f"{FIRST}/{QUERY}", f"{target}/{QUERY}", batch=9, keep_planned=False)

    assert all(entry.place.startswith(target) for entry in world.area.tree(target).entries().values())
    assert verify(world.area.tree(target) / QUERY).startable


def test_nothing_is_judged_before_the_first_commit(tmp_path: Path) -> None:
    made = World(tmp_path / "storage")
    made.area.create(FIRST)
    made.files.write(f"{FIRST}/{QUERY}/metadata", b'{"id":"1"}')
    made.files.write(f"{FIRST}/{QUERY}/offsets/0", b"v1")
    made.pass_time(90 * DAY)

    assert made.search().garbage == []
