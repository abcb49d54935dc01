"""The lock of a submission's directory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.errors import ConfigurationError, StorageUnavailableError
from airflow_provider_ha.host.supervisor.arrival import lock_directory
from airflow_provider_ha.jobs.drivers.driver_home import Ticket
from airflow_provider_ha.jobs.drivers.driver_spec import DriverSpec
from airflow_provider_ha.jobs.job_graph import Blob
from tests.support.clusters.full_disk import SmallDisk, small_disk


def spec_in(directory: Path) -> DriverSpec:
    return DriverSpec(
        config=HaConfig.build(zookeeper="127.0.0.1:1", storage_root=f"file://{directory}/storage", cluster_id="c"),
        ticket=Ticket(job_id="j", run=1, attempt=1, submission_id="s", graph=Blob(sha256="0" * 64, size=1)),
        directory=directory,
    )


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk", inodes=20) as mounted:
        yield mounted


def test_a_disk_without_room_for_the_lock_is_an_outage(disk: SmallDisk) -> None:
    disk.fill_inodes()

    with pytest.raises(StorageUnavailableError, match=r"supervisor\.lock could not be written"):
        lock_directory(spec_in(disk.path))


def test_a_full_disk_does_not_hide_the_supervisor_that_was_first(disk: SmallDisk) -> None:
    first = lock_directory(spec_in(disk.path))
    disk.fill_inodes()

    with pytest.raises(ConfigurationError, match="another supervisor works"):
        lock_directory(spec_in(disk.path))
    os.close(first)
