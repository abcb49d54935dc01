"""A deletion that is killed (SIGKILL) before each step: the job is whole or gone, and the next call completes."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator, SetData
from airflow_provider_ha.coordination.raw_socket import close_session
from airflow_provider_ha.errors import JobStateError, UnknownJobError
from airflow_provider_ha.fleet.cluster_leader import ClusterLeader
from airflow_provider_ha.fleet.cluster_removal import erase_cluster
from airflow_provider_ha.jobs.drivers.driver_spec import read_session
from airflow_provider_ha.jobs.observe import list_jobs
from airflow_provider_ha.jobs.removal.job_deletion import DeletionState
from airflow_provider_ha.jobs.removal.removal_records import read_life
from tests.conformance.stores.stage import pointers
from tests.support.checkpoints.three_checkpoints import three_checkpoints
from tests.support.clusters import submit_helpers as helpers
from tests.support.clusters.whole_jobs import SAVEPOINT, files_of, whole_job


MOST = 60  # steps; the deletion has fewer
KEPT = {"savepoints", "checkpoints"}  # with the payloads that a restore from a savepoint reads


def is_whole(client: HaClient, job_id: str) -> bool:
    """Whether every reader sees the whole job; else none sees anything of it but what stays."""
    job = client.job(job_id)
    listed = job_id in client.list_jobs()
    numbers = [pointer.number for pointer in job.checkpoints.list().pointers]
    try:
        run = job.snapshot().run
    except UnknownJobError:
        assert (listed, numbers) == (False, [])
        return False
    assert run is not None
    assert run.result is not None
    assert (listed, numbers) == (True, [2, 1])
    assert [each.savepoint_id for each in job.savepoints.list().pointers] == [SAVEPOINT]
    assert len(files_of(client.context(job_id))) > 5
    return True


def killed(config: HaConfig, session: Path, words: list[str]) -> bool:
    """Run a deletion in a process that kills itself at a step, and end its session; ``False``: it has no such step."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.fault.delete_process", *words], check=False, capture_output=True, text=True
    )
    if done.returncode == 0:
        return False
    assert done.returncode == -signal.SIGKILL, done.stderr
    credentials = read_session(session)
    assert credentials is not None
    close_session(config, credentials)
    return True


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("keep", [False, True], ids=["all", "keep-savepoints"])
def test_a_deletion_is_whole_or_done_after_a_kill_before_any_step(
    config: HaConfig, coordinator: Coordinator, tmp_path: Path, keep: bool
) -> None:
    client = HaClient(config, coordinator)
    seen: list[bool] = []
    for step in range(1, MOST):
        job = whole_job(helpers.context(config, coordinator, job_id=f"job-{step}"), helpers.script(tmp_path))
        session = tmp_path / f"session-{step}"
        words = [config.to_private_json(), str(session), job.job_id, str(step), "keep" if keep else "all"]

        if not killed(config, session, words):
            break
        seen.append(is_whole(client, job.job_id))
        life = read_life(coordinator, job.paths)
        if life.deleted is not None and not life.deleted.complete:
            with pytest.raises(JobStateError, match="is being deleted since"):
                helpers.submit(job, helpers.script(tmp_path))
        again = client.job(job.job_id).delete(requested_by="test", keep_savepoints=keep)
        assert again.state is DeletionState.DELETED
        assert not is_whole(client, job.job_id)
        assert bool(files_of(job)) is keep
        assert [each.savepoint_id for each in client.job(job.job_id).savepoints.list().pointers] == [SAVEPOINT] * keep
    assert seen == sorted(seen, reverse=True), "first whole, from one step on gone"
    assert set(seen) == {True, False}
    assert len(seen) >= 10
    assert list_jobs(coordinator, client.paths) == []


@pytest.mark.long
@pytest.mark.timeout(900)
def test_an_erased_cluster_has_whole_jobs_or_none_of_them_after_a_kill_before_some_step(
    config: HaConfig, coordinator: Coordinator, tmp_path: Path
) -> None:
    """Every third step: the deletion of one job is killed before each of its steps above."""
    for step in range(1, 10 * MOST, 3):
        place = config.model_copy(update={"cluster_id": f"erased-{step}"})
        client = HaClient(place, coordinator)
        jobs = [helpers.context(place, coordinator, job_id=each) for each in ("one", "two")]
        for job in jobs:
            whole_job(job, helpers.script(tmp_path))
        session = tmp_path / f"session-{step}"
        words = [place.to_private_json(), str(session), "-", str(step), "cluster"]

        if ended := not killed(place, session, words):
            break
        for job in jobs:
            is_whole(client, job.job_id)  # which asserts that it is gone where it is not whole
        with ClusterLeader(client, by="test") as leader:
            leader.lead(timeout=30)
            erase_cluster(client, leader.leadership, by="test")
        assert client.list_jobs() == []
        for job in jobs:
            assert {path.relative_to(job.config.work_path / job.keys.base).parts[0] for path in files_of(job)} <= KEPT
            assert [each.savepoint_id for each in client.job(job.job_id).savepoints.list().pointers] == [SAVEPOINT]
    assert ended


@pytest.mark.long
@pytest.mark.timeout(900)
def test_an_unreadable_pointer_is_there_or_its_bytes_are_after_a_kill_before_any_step(
    config: HaConfig, coordinator: Coordinator, tmp_path: Path
) -> None:
    seen: list[list[int]] = []
    for step in range(1, MOST):
        place = config.model_copy(update={"cluster_id": f"unreadable-{step}"})
        job = three_checkpoints(place, coordinator)
        coordinator.commit(SetData(job.paths.checkpoint(2), b"garbage"))
        session = tmp_path / f"session-{step}"
        words = [place.to_private_json(), str(session), "flights", str(step), "checkpoint-2"]

        if not killed(place, session, words):
            break
        seen.append(pointers(job))
        if 2 not in seen[-1]:
            assert len(list(job.objects.list(job.keys.removed_pointers))) == 1
        else:
            again = HaClient(place, coordinator).job("flights")
            again.delete_checkpoint(again.plan_checkpoint_deletion("2"), requested_by="test")
        assert pointers(job) == [1, 3]
        assert len(list(job.objects.list(job.keys.removed_pointers))) == 1
    assert seen == sorted(seen), "first there, from one step on gone"
    assert [1, 2, 3] in seen
    assert [1, 3] in seen
