"""A savepoint of any checkpoint directory: which cut, what is copied, what is refused."""

from __future__ import annotations

import os
import shutil
from datetime import datetime
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.model import Savepoint
from airflow_provider_ha.checkpoints.store.savepoints import savepoint_directory as directories
from airflow_provider_ha.checkpoints.store.savepoints.creation import ATTEMPTS, take
from airflow_provider_ha.checkpoints.store.savepoints.manifest import write_manifest
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_directory import (
    DirectoryLayout,
    SavepointDirectory,
    read_savepoint,
)
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_layout import SavepointSource
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_report import judge
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.errors import (
    CheckpointCorruptError,
    CheckpointMissingError,
    ConfigurationError,
    ObjectExistsError,
    StorageUnavailableError,
)
from tests.support.checkpoints.portable_helpers import QUERY, checkpoint, names_in, write_batch


@pytest.fixture
def live(tmp_path: Path) -> Path:
    return checkpoint(tmp_path / "live" / QUERY)


class PurgingClock(SystemClock):
    """Between the choice of a cut and the copy, the query commits a batch and purges, as often as it is told to."""

    def __init__(self, live: Path, times: int) -> None:
        self.live, self.times, self.newest = live, times, 2

    def now(self) -> datetime:
        if self.times > 0:
            self.times -= 1
            self.newest += 1
            write_batch(self.live, self.newest)
            (self.live / "offsets" / str(self.newest - 2)).unlink()
        return super().now()


def test_the_newest_committed_batch_is_saved_and_no_other(live: Path, tmp_path: Path) -> None:
    (live / "offsets" / "3").write_text((live / "offsets" / "2").read_text())

    made = take([SavepointSource(query=QUERY, directory=live)], DirectoryLayout(tmp_path / "sp"))

    assert made.queries[QUERY].batch == 2
    assert set(made.files) == {f"{QUERY}/{name}" for name in ("metadata", "commits/2", "offsets/1", "offsets/2")}
    assert read_savepoint(tmp_path / "sp").savepoint == made
    assert judge(SavepointDirectory(tmp_path / "sp", made)).restorable is True


def test_an_older_batch_can_be_asked_for(live: Path, tmp_path: Path) -> None:
    made = take([SavepointSource(query=QUERY, directory=live, batch=1)], DirectoryLayout(tmp_path / "sp"))

    assert [entry.batch for entry in made.queries[QUERY].entries] == [1]
    assert f"{QUERY}/offsets/2" not in made.files


def test_what_was_purged_meanwhile_is_replaced_by_a_newer_batch(live: Path, tmp_path: Path) -> None:
    clock = PurgingClock(live, times=2)

    made = take([SavepointSource(query=QUERY, directory=live)], DirectoryLayout(tmp_path / "sp"), clock=clock)

    assert made.queries[QUERY].batch == 4
    assert names_in(tmp_path) == ["live", "sp"]


def test_a_query_that_purges_every_time_ends_the_attempts(live: Path, tmp_path: Path) -> None:
    clock = PurgingClock(live, times=ATTEMPTS + 10)

    with pytest.raises(CheckpointMissingError, match=f"purged files during the copy {ATTEMPTS} times"):
        take([SavepointSource(query=QUERY, directory=live)], DirectoryLayout(tmp_path / "sp"), clock=clock)

    assert clock.times == 10
    assert names_in(tmp_path) == ["live"]


def test_the_cut_of_several_queries_is_chosen_before_the_first_copy(live: Path, tmp_path: Path) -> None:
    """Upstream goes on after downstream was looked at, never before: it may be ahead, it is never behind."""
    downstream = checkpoint(tmp_path / "live" / "down", range(2))

    class Advancing(SystemClock):
        def now(self) -> datetime:
            write_batch(downstream, 2)
            return super().now()

    sources = [SavepointSource(query="down", directory=downstream), SavepointSource(query=QUERY, directory=live)]
    made = take(sources, DirectoryLayout(tmp_path / "sp"), clock=Advancing())

    assert {name: part.batch for name, part in made.queries.items()} == {"down": 1, QUERY: 2}
    assert list(made.queries) == ["down", QUERY]


def test_a_copied_savepoint_does_not_notice_what_is_done_to_the_live_file(live: Path, tmp_path: Path) -> None:
    made = take([SavepointSource(query=QUERY, directory=live)], DirectoryLayout(tmp_path / "sp"))

    os.truncate(live / "offsets" / "2", 0)

    assert made.shares_inodes is False
    assert judge(SavepointDirectory(tmp_path / "sp", made)).restorable is True


def test_a_linked_savepoint_says_so_and_notices(live: Path, tmp_path: Path) -> None:
    made = take([SavepointSource(query=QUERY, directory=live)], DirectoryLayout(tmp_path / "sp", link=True))

    os.truncate(live / "offsets" / "2", 0)

    assert made.shares_inodes is True
    assert (tmp_path / "sp" / QUERY / "commits" / "2").samefile(live / "commits" / "2")
    assert judge(SavepointDirectory(tmp_path / "sp", made)).restorable is False


def test_the_log_of_a_file_sink_belongs_to_the_cut(live: Path, tmp_path: Path) -> None:
    log = tmp_path / "out" / "_spark_metadata"
    log.mkdir(parents=True)
    for batch in range(4):
        (log / str(batch)).write_text("v1")

    made = take([SavepointSource(query=QUERY, directory=live, sink=tmp_path / "out")], DirectoryLayout(tmp_path / "sp"))

    assert f"sinks/{QUERY}/_spark_metadata/2" in made.files
    assert f"sinks/{QUERY}/_spark_metadata/3" not in made.files
    assert (made.queries[QUERY].sink.path, made.queries[QUERY].sink.max_batch) == (str(tmp_path / "out"), 3)


def test_a_sink_that_does_not_have_the_batch_is_not_this_query_s(live: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointCorruptError, match="_spark_metadata"):
        take([SavepointSource(query=QUERY, directory=live, sink=tmp_path)], DirectoryLayout(tmp_path / "sp"))

    assert not (tmp_path / "sp").exists()


def test_a_damaged_checkpoint_is_not_saved(live: Path, tmp_path: Path) -> None:
    (live / "offsets" / "1").write_text("")

    with pytest.raises(CheckpointCorruptError, match="offsets/1"):
        take([SavepointSource(query=QUERY, directory=live)], DirectoryLayout(tmp_path / "sp"))

    assert names_in(tmp_path) == ["live"]


def test_a_copy_that_is_torn_is_never_complete(live: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk gives back other bytes than were written: found by reading them again, and tried again."""
    written: list[Path] = []

    def on_a_bad_disk(directory: Path, made: Savepoint) -> None:
        write_manifest(directory, made)
        written.append(directory)
        (directory / QUERY / "commits" / "2").write_text("v1\n{}")

    monkeypatch.setattr(directories, "write_manifest", on_a_bad_disk)

    with pytest.raises(CheckpointCorruptError, match="commits/2"):
        take([SavepointSource(query=QUERY, directory=live)], DirectoryLayout(tmp_path / "sp"))

    assert len(written) == ATTEMPTS
    assert names_in(tmp_path) == ["live"]


def test_nothing_committed_is_no_savepoint(tmp_path: Path) -> None:
    with pytest.raises(CheckpointMissingError, match="not committed"):
        take(
            [SavepointSource(query=QUERY, directory=checkpoint(tmp_path / "live", ()))],
            DirectoryLayout(tmp_path / "sp"),
        )


def test_an_existing_target_stays_as_it_is(live: Path, tmp_path: Path) -> None:
    (tmp_path / "sp").mkdir()

    with pytest.raises(ObjectExistsError):
        take([SavepointSource(query=QUERY, directory=live)], DirectoryLayout(tmp_path / "sp"))

    assert names_in(tmp_path / "sp") == []


def test_a_parent_that_is_not_there_is_not_made(live: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="not a directory"):
        take([SavepointSource(query=QUERY, directory=live)], DirectoryLayout(tmp_path / "unmounted" / "sp"))

    assert not (tmp_path / "unmounted").exists()


def test_a_savepoint_inside_its_own_checkpoint_is_refused(live: Path) -> None:
    with pytest.raises(ConfigurationError, match="inside the checkpoint"):
        take([SavepointSource(query=QUERY, directory=live)], DirectoryLayout(live / "sp"))


def test_a_checkpoint_that_is_not_there_is_not_a_bad_one(tmp_path: Path) -> None:
    with pytest.raises(StorageUnavailableError):
        take([SavepointSource(query=QUERY, directory=tmp_path / "absent")], DirectoryLayout(tmp_path / "sp"))


@pytest.mark.parametrize("names", [("../up",), ("sinks",), ("a", "a"), ()])
def test_names_that_cannot_be_told_apart_or_are_no_names_are_refused(
    live: Path, tmp_path: Path, names: tuple[str, ...]
) -> None:
    with pytest.raises(ConfigurationError):
        take([SavepointSource(query=name, directory=live) for name in names], DirectoryLayout(tmp_path / "sp"))


def test_a_file_that_was_added_or_changed_later_is_told(live: Path, tmp_path: Path) -> None:
    made = take([SavepointSource(query=QUERY, directory=live)], DirectoryLayout(tmp_path / "sp"))
    (tmp_path / "sp" / QUERY / "offsets" / "3").write_text("v1")
    (tmp_path / "sp" / QUERY / "metadata").unlink()
    shutil.copy(live / "offsets" / "0", tmp_path / "sp" / QUERY / "offsets" / "2")

    report = judge(SavepointDirectory(tmp_path / "sp", made))

    assert report.restorable is False
    assert {problem.path: problem.reason for problem in report.files} == {
        f"{QUERY}/metadata": "it is in the manifest but missing",
        f"{QUERY}/offsets/2": "its digest is not the one in the manifest",
        f"{QUERY}/offsets/3": "it is not in the manifest",
    }


def test_a_directory_without_a_manifest_is_not_a_savepoint(live: Path) -> None:
    with pytest.raises(CheckpointMissingError, match="not a savepoint"):
        read_savepoint(live)
