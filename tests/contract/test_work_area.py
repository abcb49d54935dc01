"""Work areas against their contract, and what only one of them can do."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.areas.linked_work_area import LinkedWorkArea
from airflow_provider_ha.checkpoints.areas.work_area import WorkArea, costs
from airflow_provider_ha.checkpoints.spark import atomic
from airflow_provider_ha.checkpoints.spark.atomic import NO_LINKS
from airflow_provider_ha.checkpoints.spark.tree import WritableTree
from airflow_provider_ha.errors import RecordCorruptError
from airflow_provider_ha.storage.keys import JobKeys
from tests.contract.work_areas import LIVE, NEXT, WorkAreaContract
from tests.support.odd_names import ODD
from tests.support.spark.recorded_job import QUERY


# The cached job is made by Spark when it is not there yet.
pytestmark = pytest.mark.timeout(300)


class TestLinkedWorkArea(WorkAreaContract):
    @pytest.fixture
    def area(self, tmp_path: Path) -> WorkArea:
        return LinkedWorkArea(tmp_path / ODD / "cluster")

    def execute(self, tree: WritableTree, recorded: Path) -> None:
        assert tree.local_path is not None
        shutil.copytree(recorded, tree.local_path)

    def test_a_fork_takes_no_space_for_the_files_of_its_source(self, working: WorkArea) -> None:
        working.create(NEXT)

        working.fork(f"{LIVE}/{QUERY}", f"{NEXT}/{QUERY}", batch=8, keep_planned=False)

        source, forked = working.tree(LIVE) / QUERY, working.tree(NEXT) / QUERY
        assert forked.identity("offsets/8") == source.identity("offsets/8")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "cluster"


def test_a_key_that_leads_through_a_link_is_refused(root: Path, tmp_path: Path) -> None:
    (root / "jobs").mkdir(parents=True)
    (root / "jobs" / "flights").symlink_to(tmp_path)

    with pytest.raises(RecordCorruptError, match="symbolic link"):
        LinkedWorkArea(root).tree(LIVE)


def test_the_remains_of_a_killed_maker_or_remover_are_listed_and_removed(root: Path) -> None:
    live = root / JobKeys("flights").live
    for hidden in (f".e3-z.{'0' * 32}.removed", f".e3-z.{'1' * 32}.tmp", ".no-remains"):
        (live / hidden).mkdir(parents=True)
    area = LinkedWorkArea(root)

    assert list(area.list(JobKeys("flights").live)) == ["e3-z"]
    area.remove(f"{JobKeys('flights').live}e3-z")

    assert [path.name for path in live.iterdir()] == [".no-remains"]


def test_a_file_system_with_links_is_known_by_one(root: Path) -> None:
    assert LinkedWorkArea(root).capabilities().links
    assert costs(LinkedWorkArea(root)) == ()


@pytest.mark.parametrize("number", sorted(NO_LINKS), ids=errno.errorcode.get)
def test_a_file_system_without_links_is_known_by_its_answer(
    root: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    real = os.link

    def refuse(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
        if os.fspath(target).endswith("second"):
            raise OSError(number, os.strerror(number))
        real(source, target)

    monkeypatch.setattr(os, "link", refuse)

    found = LinkedWorkArea(root).capabilities()
    (cost,) = costs(LinkedWorkArea(root))

    assert (found.links, found.refusal) == (False, os.strerror(number))
    assert f"the work root file://{root} has no hard links ({os.strerror(number)}), so files are copied" in cost


@pytest.fixture
def other_file_system(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "mounted"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "none", str(place)], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("this user may not mount a file system")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_file_of_another_file_system_is_copied(tmp_path: Path, other_file_system: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")

    assert not atomic.linked(tmp_path / "file", other_file_system / "file")
    atomic.link(tmp_path / "file", other_file_system / "a" / "file")

    assert (other_file_system / "a" / "file").read_bytes() == b"content"
