"""What every work area does. A subclass for each kind of area runs all of it: it only says how the area is made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.areas.pins import sink_directory
from airflow_provider_ha.checkpoints.areas.work_area import WorkArea
from airflow_provider_ha.checkpoints.sinks.file_sink_log import FileSinkLog, sink_log
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import COMMITS, OFFSETS, Progress, numbers, progress
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.spark.tree import WritableTree
from airflow_provider_ha.checkpoints.verify.verification import verify
from airflow_provider_ha.errors import (
    CheckpointMissingError,
    HaError,
    ObjectExistsError,
    RecordCorruptError,
)
from airflow_provider_ha.storage.keys import JobKeys
from tests.support.spark.recorded_job import QUERY, recorded_job


JOB = JobKeys("flights")
LIVE, NEXT = JOB.working_directory(1, "x"), JOB.working_directory(2, "y")
PIN = JOB.pin(1, 1)
LAST = 13  # of the recorded job
NOTES = JOB.given("q")
LEADING_OUT = ["../outside", "/etc", "jobs//flights", "jobs/./flights", "jobs/.hidden", "", "jobs/\n"]


class WorkAreaContract:
    """The contract. A subclass has a fixture ``area`` that returns an empty one."""

    def execute(self, tree: WritableTree, recorded: Path) -> None:
        """Leave in *tree* what Spark left in *recorded*."""
        for path in sorted(path for path in recorded.rglob("*") if path.is_file()):
            tree.write(str(path.relative_to(recorded)), path.read_bytes())

    @pytest.fixture
    def working(self, area: WorkArea) -> WorkArea:
        """An area with one working directory, in which one query has executed its batches."""
        self.execute(area.create(LIVE) / QUERY, recorded_job() / "live" / QUERY)
        return area

    def test_a_file_is_created_once(self, area: WorkArea) -> None:
        tree = area.create(LIVE)
        tree.create("q/entry", b"first")

        with pytest.raises(ObjectExistsError):
            tree.create("q/entry", b"second")

        assert tree.fresh().read("q/entry") == b"first"

    def test_a_file_is_uploaded_as_a_whole(self, area: WorkArea, tmp_path: Path) -> None:
        source, tree = tmp_path / "source", area.create(LIVE)
        source.write_bytes(b"of this host")
        tree.write("q/large", b"replaced")

        tree.upload("q/large", source)

        assert tree.fresh().read("q/large") == b"of this host"

    def test_a_file_is_removed_and_other_files_of_its_directory_stay(self, area: WorkArea) -> None:
        tree = area.tree(NOTES)
        tree.write("e1.json", b"first")
        tree.write("e10.json", b"second")

        for _ in range(2):
            tree.remove("e1.json")

        assert tree.names() == area.tree(NOTES).names() == ["e10.json"]

    @pytest.mark.parametrize("key", LEADING_OUT)
    def test_a_key_never_leads_out(self, area: WorkArea, key: str) -> None:
        actions: list[Callable[[str], object]] = [
            area.tree,
            area.create,
            area.remove,
            area.fence,
            area.current,
            area.uri,
            area.contains,
        ]

        for act in actions:
            with pytest.raises(HaError):
                act(key)

    @pytest.mark.parametrize("key", [*LEADING_OUT, JOB.pin(1, 1), f"{LIVE}/{QUERY}", JobKeys("other").live + "e1-x"])
    def test_a_key_of_a_record_is_held_to_the_directories_of_its_job(self, area: WorkArea, key: str) -> None:
        with pytest.raises(RecordCorruptError, match="znode /generation is refused"):
            area.admit(key, inside=(JOB.live,), source="znode /generation")

    def test_a_key_of_a_record_that_names_a_directory_of_its_job_is_admitted(self, area: WorkArea) -> None:
        assert area.admit(LIVE, inside=(JOB.live,), source="znode /generation") == LIVE

    def test_a_directory_does_not_exist_before_its_creation(self, area: WorkArea) -> None:
        assert (area.contains(LIVE), list(area.list(JOB.live)), area.tree(LIVE).names()) == (False, [], [])

    def test_a_directory_is_made_once(self, area: WorkArea) -> None:
        area.create(LIVE)

        with pytest.raises(ObjectExistsError):
            area.create(LIVE)

    def test_what_is_made_is_listed_by_its_prefix(self, area: WorkArea) -> None:
        for key in (NEXT, LIVE, PIN):
            area.create(key).write("file", b"content")

        assert [f"{JOB.live}{name}" for name in area.list(JOB.live)] == [LIVE, NEXT]

    def test_a_file_is_read_back_as_it_was_written_last(self, area: WorkArea) -> None:
        tree = area.create(LIVE)
        tree.write("deeper/file", b"first")
        (tree / "deeper").write("file", b"second")

        assert area.tree(LIVE).read("deeper/file") == b"second"

    def test_a_directory_that_is_removed_is_gone(self, working: WorkArea) -> None:
        working.remove(LIVE)

        assert (working.contains(LIVE), list(working.list(JOB.live))) == (False, [])

    def test_removing_what_is_not_there_is_no_error(self, area: WorkArea) -> None:
        area.create(NEXT)

        area.remove(LIVE)

        assert area.contains(NEXT)

    def test_the_queries_of_a_directory_are_those_that_spark_began_to_fill(self, working: WorkArea) -> None:
        working.tree(LIVE).write("started.json", b"{}")
        working.tree(LIVE).write("empty/other", b"")
        working.create(NEXT)
        working.fork(f"{LIVE}/{QUERY}", f"{NEXT}/{QUERY}", keep_planned=True)

        assert (list(working.queries(LIVE)), list(working.queries(NEXT))) == ([QUERY], [QUERY])

    def test_a_fork_goes_on_after_its_batch(self, working: WorkArea) -> None:
        working.create(NEXT)

        working.fork(f"{LIVE}/{QUERY}", f"{NEXT}/{QUERY}", batch=8, keep_planned=False)

        forked = working.tree(NEXT) / QUERY
        assert (progress(forked), verify(forked).startable) == (Progress(8, 8), True)

    def test_a_fork_brings_the_planned_batch_along_when_it_is_asked_to(self, working: WorkArea) -> None:
        working.create(NEXT)

        working.fork(f"{LIVE}/{QUERY}", f"{NEXT}/{QUERY}", batch=8, keep_planned=True)

        forked = working.tree(NEXT) / QUERY
        assert (max(numbers(forked, OFFSETS)), max(numbers(forked, COMMITS))) == (9, 8)

    def test_a_fork_never_replaces_anything(self, working: WorkArea) -> None:
        working.create(NEXT)
        working.fork(f"{LIVE}/{QUERY}", f"{NEXT}/{QUERY}", batch=8, keep_planned=False)

        with pytest.raises(ObjectExistsError):
            working.fork(f"{LIVE}/{QUERY}", f"{NEXT}/{QUERY}", batch=9, keep_planned=False)

        assert progress(working.tree(NEXT) / QUERY).committed == 8

    def test_a_fork_of_a_batch_that_is_not_there_leaves_nothing(self, working: WorkArea) -> None:
        working.create(NEXT)

        with pytest.raises(CheckpointMissingError):
            working.fork(f"{LIVE}/{QUERY}", f"{NEXT}/{QUERY}", batch=99, keep_planned=False)

        assert working.tree(NEXT).names() == []

    def test_writes_to_a_fork_do_not_change_its_source(self, working: WorkArea) -> None:
        source = working.tree(LIVE) / QUERY
        before = source.read("metadata")
        working.create(NEXT)
        working.fork(f"{LIVE}/{QUERY}", f"{NEXT}/{QUERY}", batch=8, keep_planned=False)

        (working.tree(NEXT) / QUERY).write("metadata", b'{"id": "another"}')

        assert source.read("metadata") == before

    def test_a_retained_cut_outlives_its_working_directory(self, working: WorkArea) -> None:
        retained = working.retain(LIVE, PIN, {QUERY: 9}, sinks={})
        assert retained.key in {LIVE, PIN}
        if retained.key == LIVE:
            return  # this area keeps the directory itself

        working.remove(LIVE)

        kept = working.tree(retained.key) / QUERY
        assert {name: kept.file_size(name) for name in retained.files[QUERY]} == retained.files[QUERY]
        assert verify(kept).startable

    def test_a_retained_cut_holds_the_log_of_its_file_sink(self, working: WorkArea) -> None:
        output = recorded_job() / "out"

        retained = working.retain(LIVE, PIN, {QUERY: 9}, sinks={QUERY: sink_log(str(output))})

        place = working.tree(retained.key).local_path
        if place is not None:
            assert FileSinkLog(sink_directory(place, QUERY)).max_batch() == 9

    def test_a_batch_that_is_not_there_cannot_be_retained(self, working: WorkArea) -> None:
        with pytest.raises(CheckpointMissingError):
            working.retain(LIVE, PIN, {QUERY: 99}, sinks={})

        assert not working.contains(PIN)

    def test_what_a_fenced_directory_had_is_found_under_its_current_key(self, working: WorkArea) -> None:
        fenced = working.fence(LIVE)

        assert (working.current(LIVE), working.contains(fenced)) == (fenced, True)
        assert progress(working.tree(fenced) / QUERY).planned >= LAST

    def test_a_fence_is_made_again_without_an_error(self, working: WorkArea) -> None:
        assert working.fence(LIVE) == working.fence(LIVE)

    def test_a_directory_that_is_not_there_cannot_be_fenced(self, area: WorkArea) -> None:
        with pytest.raises(CheckpointMissingError):
            area.fence(LIVE)

    def test_what_is_not_fenced_is_current_under_its_own_key(self, working: WorkArea) -> None:
        assert working.current(LIVE) == LIVE

    def test_spark_is_given_an_absolute_place(self, area: WorkArea) -> None:
        assert area.uri(LIVE).partition("://")[2].endswith(LIVE)

    def test_an_adopted_checkpoint_shares_no_file_with_its_owner(self, area: WorkArea, tmp_path: Path) -> None:
        source = LocalTree(recorded_job() / "live" / QUERY)
        area.create(LIVE)

        area.bring_in(source, f"{LIVE}/{QUERY}", batch=8)

        brought = area.tree(LIVE) / QUERY
        assert brought.read("metadata") == source.read("metadata")
        assert brought.identity("metadata") != source.identity("metadata")

    def test_the_capabilities_are_measured_without_leaving_a_trace(self, working: WorkArea) -> None:
        before = working.tree("jobs").names(), working.list(JOB.live)

        working.capabilities()

        assert (working.tree("jobs").names(), working.list(JOB.live)) == before
