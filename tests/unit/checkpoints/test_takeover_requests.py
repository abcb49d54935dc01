"""Requests of a takeover to a store: each is a network request, and a listing has a page per thousand files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.areas.layered.layered_work_area import LayeredWorkArea
from airflow_provider_ha.checkpoints.restore.plan_execution import prepare_recovery
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import Progress
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.driver.checkpointing.origin import OriginKind
from airflow_provider_ha.driver.checkpointing.progress import BatchRecorder
from airflow_provider_ha.driver.checkpointing.start_point import prepare_start
from airflow_provider_ha.jobs.model import Generation
from airflow_provider_ha.storage.local_store import LocalStore
from airflow_provider_ha.storage.object_store import ObjectInfo
from tests.support.checkpoints.layered_files import FIRST, JOB, SECOND, LayeredFiles
from tests.support.checkpoints.portable_helpers import QUERY
from tests.support.clusters.jobs_helpers import a_run


PATHS = ClusterPaths("spark-ha", "default").job(JOB.job_id)


class NotedRequests(LocalStore):
    """Files whose requests are noted.

    :ivar lists: Prefixes of the listings with sizes, in order.
    :ivar every: All requests, as ``read jobs/flights/live/e1-x/words/offsets/2``.
    """

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.lists: list[str] = []
        self.every: list[str] = []

    def list(self, prefix: str, *, markers: bool = False) -> Iterator[ObjectInfo]:
        self.lists.append(prefix)
        before = [*self.every, f"list {prefix}"]
        found = list(super().list(prefix, markers=markers))
        self.every = before  # without the requests by which a listing of local files is made
        return iter(found)

    def names(self, prefix: str) -> Sequence[str]:
        before = [*self.every, f"names {prefix}"]
        found = super().names(prefix)
        self.every = before
        return found

    def info(self, key: str) -> ObjectInfo | None:
        self.every.append(f"info {key}")
        return super().info(key)

    def read(self, key: str) -> bytes:
        self.every.append(f"read {key}")
        return super().read(key)

    def create(self, key: str, data: bytes, *, writer: str = "") -> None:
        self.every.append(f"create {key}")
        super().create(key, data, writer=writer)

    def write(self, key: str, data: bytes) -> None:
        self.every.append(f"write {key}")
        super().write(key, data)


@pytest.fixture
def files(tmp_path: Path) -> NotedRequests:
    LayeredFiles(tmp_path / "cluster").run(FIRST)
    return NotedRequests(tmp_path / "cluster")


def start(files: NotedRequests) -> list[str]:
    """Make the working directory after a loss; return the requests."""
    area = LayeredWorkArea(files)
    lost = Generation(run=1, epoch=1, directory=FIRST)

    origin = prepare_start(files, area, PATHS, a_run(1), lost, key=SECOND)

    assert origin.kind is OriginKind.RECOVERY
    return files.every


def test_a_fence_lists_nothing_but_logs(files: NotedRequests) -> None:
    LayeredWorkArea(files).fence(FIRST)

    assert set(files.lists) == {f"{FIRST}/{QUERY}/offsets/", f"{FIRST}/{QUERY}/commits/"}


def test_a_recovery_lists_the_state_of_a_query_once(files: NotedRequests) -> None:
    area = LayeredWorkArea(files)
    area.create(SECOND)

    forked = prepare_recovery(area, area.fence(FIRST), SECOND)

    assert forked == {QUERY: Progress(2, 2)}
    whole = [prefix for prefix in files.lists if f"{FIRST}/{QUERY}/state/0/".startswith(prefix)]
    assert whole == [f"{FIRST}/{QUERY}/"]


def test_a_recovery_lists_nothing_after_the_state(files: NotedRequests) -> None:
    """Where the query stands is in the same listing, and nothing moves it after the fence."""
    area = LayeredWorkArea(files)
    area.create(SECOND)

    prepare_recovery(area, area.fence(FIRST), SECOND)

    assert files.lists[-1] == f"{FIRST}/{QUERY}/"


def test_a_start_lists_a_fenced_directory_once_and_reads_none_of_its_files_twice(files: NotedRequests) -> None:
    start(files)

    (whole,) = (at for at, request in enumerate(files.every) if request == f"list {FIRST}/")
    of_lost = [request for request in files.every[whole:] if FIRST in request]
    assert len(of_lost) == len(set(of_lost)), of_lost


def test_a_start_lists_no_directory_that_it_makes(files: NotedRequests) -> None:
    start(files)

    assert not [prefix for prefix in files.lists if SECOND in prefix]


def test_batches_of_the_lost_epoch_are_not_read_again_by_the_next_driver(files: NotedRequests) -> None:
    area = LayeredWorkArea(files)
    origin = prepare_start(files, area, PATHS, a_run(1), Generation(run=1, epoch=1, directory=FIRST), key=SECOND)
    recorder = BatchRecorder(origin.directory / QUERY, origin.known(QUERY), carried_to=origin.carried_to(QUERY))
    files.every.clear()

    assert recorder.poll() == 2
    assert [entry.batch for entry in recorder.entries()] == [0, 1, 2]
    of_lost = {request for request in files.every if FIRST in request}
    assert of_lost == {f"read {FIRST}/{QUERY}/{entry}" for entry in ("offsets/2", "commits/2")}


def test_directories_of_earlier_epochs_cost_a_start_no_request(files: NotedRequests, tmp_path: Path) -> None:
    for epoch in range(10, 30):
        LayeredFiles(tmp_path / "cluster").run(JOB.working_directory(epoch, "y"))

    assert not [request for request in start(files) if "-y/" in request]
