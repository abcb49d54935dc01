"""Directories of this package are for their owner only; what a user's output gets is as open as what is above it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.spark.atomic import building, write_aside
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.host.engines.local import LocalEngine
from airflow_provider_ha.jobs.drivers.driver_home import Ticket
from airflow_provider_ha.jobs.job_graph import Blob
from airflow_provider_ha.jobs.runs.submissions import DriverHandle
from airflow_provider_ha.storage.durable import directories_as_above, private_directories


@pytest.fixture(autouse=True)
def generous() -> Iterator[None]:
    """A umask that hides nothing: what is private is so by intent."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def modes(root: Path) -> set[int]:
    return {stat.S_IMODE(path.stat().st_mode) for path in root.rglob("*") if path.is_dir()}


def test_all_that_is_missing_is_made_for_its_owner_only(tmp_path: Path) -> None:
    private_directories(tmp_path / "a" / "b" / "c")
    private_directories(tmp_path / "a" / "b" / "c")

    assert modes(tmp_path) == {0o700}


@pytest.mark.parametrize("make", [private_directories, directories_as_above])
def test_a_file_in_the_way_is_said(make: object, tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(NotADirectoryError):
        make(tmp_path / "file")  # type: ignore[operator]


@pytest.mark.parametrize("mode", [0o700, 0o750, 0o755])
def test_a_directory_is_as_open_as_the_one_above_it(mode: int, tmp_path: Path) -> None:
    tmp_path.chmod(mode)

    directories_as_above(tmp_path / "a" / "b")

    assert modes(tmp_path) == {mode}


def test_what_is_built_is_private_down_to_its_last_directory(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with building(tmp_path / "pins" / "1") as hidden:
        write_aside(hidden / "q" / "state" / "0", b"x")

    assert modes(tmp_path) == {0o700}


def test_the_log_of_a_user_s_output_stays_readable_for_others(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with building(tmp_path / "out" / "_spark_metadata", private=False) as hidden:
        write_aside(hidden / "0", b"v1")

    assert modes(tmp_path) == {0o755}


def test_a_launch_makes_every_parent_of_its_directory_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its records on S3 a submission is the first that writes below the work root."""
    config = HaConfig.build(zookeeper="127.0.0.1:1", storage_root="s3://b/p", work_root=f"file://{tmp_path}/work")
    ticket = Ticket(job_id="j", run=1, attempt=1, submission_id="s", graph=Blob(sha256="0" * 64, size=1))
    monkeypatch.setattr("airflow_provider_ha.host.engines.local.SUPERVISOR_MODULE", "this")  # prints a poem, and ends

    LocalEngine(config).launch(ticket, None)

    assert modes(tmp_path) == {0o700}


@pytest.mark.parametrize("place", ["below", "beside", "through dots", "through a link"])
def test_an_engine_forgets_a_private_file_below_its_work_root_only(tmp_path: Path, place: str) -> None:
    """A record in ZooKeeper names the directory."""
    config = HaConfig.build(zookeeper="127.0.0.1:1", storage_root="s3://b/p", work_root=f"file://{tmp_path}/work")
    root, elsewhere = config.home_path, tmp_path / "elsewhere"
    elsewhere.mkdir()
    root.mkdir(parents=True)
    (root / "link").symlink_to(elsewhere)
    dots = root / os.path.relpath(elsewhere, root)
    home = {"below": root / "j", "beside": elsewhere, "through dots": dots, "through a link": root / "link"}[place]
    home.mkdir(exist_ok=True)
    (home / "driver.json").touch()

    LocalEngine(config).forget(DriverHandle(engine="local", log_uri=f"file://host{home}/driver.log"))

    assert (home / "driver.json").exists() is (place != "below")
