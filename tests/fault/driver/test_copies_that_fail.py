"""Copies of state that cannot be kept: each batch is committed and has its checkpoint, and the output is the truth."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters.full_disk import SmallDisk, small_disk
from tests.support.s3.s3_server import S3Access
from tests.support.spark.driver_helpers import PATIENCE, Stream
from tests.support.spark.layered_job import LayeredJob, on_s3
from tests.support.spark.supervised_job import terminate_and_compare


pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.hours, pytest.mark.timeout(1200)]
BEFORE, BATCHES = 5, 100
OF_ANOTHER_USER = 12345


@pytest.fixture
def config(config: HaConfig, s3: S3Access, tmp_path: Path) -> HaConfig:
    """A cluster whose jobs work in a bucket."""
    return on_s3(config, s3, tmp_path)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """Where the copies are."""
    with small_disk(tmp_path / "disk") as mounted:
        yield mounted


@pytest.fixture
def job(client: HaClient, disk: SmallDisk, tmp_path: Path) -> LayeredJob:
    """The gated job with copies for 1 MB, a batch and a checkpoint for each file; it is not submitted yet."""
    made = LayeredJob(client, Stream(tmp_path), ("windows",))
    made.options = HaOptions(
        checkpoint_interval=0,
        restart_delay=0,
        restart_in_place=False,
        retained_checkpoints=2 * (BEFORE + BATCHES),
        local_recovery=True,
        local_recovery_dir=str(disk.path / "copies"),
        local_recovery_mb=1,
    )
    made.conf |= {"spark.sql.streaming.noDataMicroBatches.enabled": "false"}
    return made


def held(disk: SmallDisk) -> dict[str, int]:
    """Names and lengths of the copies."""
    found = [path for path in (disk.path / "copies").rglob("*") if path.suffix in (".zip", ".sst") and path.is_file()]
    return {path.name: path.stat().st_size for path in found}


@contextmanager
def full(disk: SmallDisk) -> Iterator[None]:
    """Have no byte left on the disk."""
    disk.fill()
    before = held(disk)
    yield
    assert held(disk) == before


@contextmanager
def read_only(disk: SmallDisk) -> Iterator[None]:
    """Have a disk that nothing can be written to."""
    command = ["mount", "-o", "remount,ro", str(disk.path)]
    wait_until(lambda: subprocess.run(command, check=False).returncode == 0, timeout=PATIENCE, what="the remount")
    before = held(disk)
    yield
    assert held(disk) == before


@contextmanager
def foreign(disk: SmallDisk) -> Iterator[None]:
    """Have another user's directory in the place of the job's."""
    folder = disk.path / "copies"
    wait_until(lambda: _is_removed(folder), timeout=PATIENCE, what="the removal")
    folder.mkdir(mode=0o700)
    os.chown(folder, OF_ANOTHER_USER, -1)
    yield
    assert list(folder.iterdir()) == []


def _is_removed(folder: Path) -> bool:
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()


@contextmanager
def removed_in_mid_write(disk: SmallDisk) -> Iterator[None]:
    """Have the directory removed whenever a copy is being written."""
    folder, over, removals = disk.path / "copies", threading.Event(), []

    def remove() -> None:
        while not over.wait(0.001):
            if any(name.endswith(".unfinished") for _, _, names in os.walk(folder) for name in names):
                removals.append(_is_removed(folder))

    thread = threading.Thread(target=remove)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    assert removals


@contextmanager
def above_the_limit(disk: SmallDisk) -> Iterator[None]:
    """Have tables that are longer than all copies together may be."""
    yield
    assert [name for name in held(disk) if name.endswith(".sst")] == []


FAT = ("a", random.Random(1).randbytes(300_000).hex())  # a table has its longest key twice


@pytest.mark.parametrize(
    ("broken", "keys"),
    [
        (full, ("a", "b")),
        (read_only, ("a", "b")),
        (foreign, ("a", "b")),
        (removed_in_mid_write, ("a", "b")),
        pytest.param(above_the_limit, FAT, id="above_the_limit"),
    ],
)
def test_each_of_100_batches_has_its_checkpoint_whatever_befalls_the_copies(
    job: LayeredJob,
    disk: SmallDisk,
    broken: Callable[[SmallDisk], AbstractContextManager[None]],
    keys: tuple[str, ...],
) -> None:
    job.stream.keys = keys
    job.stream.feed(BEFORE)
    job.submit()
    job.await_read(1)
    assert held(disk) or broken is above_the_limit

    with broken(disk):
        for _ in range(BATCHES):
            job.stream.feed(1)
            job.await_read(1)
            job.await_published(1)

    cuts = {pointer.cut["windows"] for pointer in job.job.checkpoints.list()}
    assert cuts >= set(range(BEFORE, BEFORE + BATCHES))
    terminate_and_compare(job, BEFORE + BATCHES)
