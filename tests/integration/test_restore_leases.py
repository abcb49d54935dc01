"""How long a restore from another job keeps that job's checkpoint from being removed, on a real ZooKeeper."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.areas.linked_work_area import LinkedWorkArea
from airflow_provider_ha.checkpoints.areas.pins import pin
from airflow_provider_ha.checkpoints.areas.work_area import Capabilities
from airflow_provider_ha.checkpoints.model import QuerySink, SinkKind
from airflow_provider_ha.checkpoints.plan_model import Verdict
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.coordination.coordinator import Coordinator, Create, Op
from airflow_provider_ha.coordination.reader_leases import active
from airflow_provider_ha.errors import (
    ConfigurationError,
    JobStateError,
    NotConnectedError,
    OutcomeUnknownError,
    RecordCorruptError,
    RestoreRefusedError,
    StorageUnavailableError,
)
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.model import Generation
from airflow_provider_ha.jobs.options.job_spec import RestoreRequest
from airflow_provider_ha.jobs.restore.job_restore import plan_for, restore_job
from tests.support.checkpoints.checkpoint_helpers import Job
from tests.support.clusters import submit_helpers as helpers
from tests.support.spark.recorded_job import QUERY, recorded_job


pytestmark = pytest.mark.timeout(300)
BATCH = 9  # of checkpoint 1
ANY = frozenset({Verdict.SAFE, Verdict.LOSS_POSSIBLE, Verdict.DUPLICATES_POSSIBLE})
FILE_SINK = QuerySink(kind=SinkKind.FILE, format="json", path="/out")


class Interrupted:
    """A session in which something happens at the commit that makes run 1 of a job."""

    def __init__(self, inner: Coordinator, path: str, event: Callable[[tuple[Op, ...]], None]) -> None:
        self._inner = inner
        self._path = path
        self._event = event
        self.lost_reads = 0

    def commit(self, *ops: Op, **options: Any) -> list[int]:
        if any(isinstance(op, Create) and op.path == self._path for op in ops):
            self._path = ""
            self._event(ops)
        return self._inner.commit(*ops, **options)

    def children(self, path: str, **options: Any) -> list[str]:
        if self.lost_reads:
            self.lost_reads -= 1
            raise NotConnectedError("no server answered")
        return self._inner.children(path, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def interrupted(job: JobContext, event: Callable[[tuple[Op, ...]], None]) -> JobContext:
    return dataclasses.replace(job, coordinator=Interrupted(job.coordinator, job.paths.run(1), event))


def request(**values: Any) -> RestoreRequest:
    return RestoreRequest(**{"job_id": "copy", "request_id": "r", "source_job": "flights", **values})


def leases(source: Job) -> int:
    """How many leases keep the source's leader from removing checkpoint 1."""
    return len(active(source.coordinator, source.paths, "checkpoint-1", SystemClock()))


def test_restore_that_goes_on_keeps_its_lease(copy: JobContext, source: Job) -> None:
    restored = restore_job(copy, request())

    assert (restored.run, restored.created, leases(source)) == (1, True, 1)


def test_plan_that_is_only_looked_at_keeps_nothing(copy: JobContext, source: Job) -> None:
    plan_for(copy, request())

    assert source.coordinator.children(source.paths.leases("checkpoint-1")) == []


def test_safe_restore_needs_no_verdict_to_be_allowed_and_keeps_its_lease(copy: JobContext, source: Job) -> None:
    restored = restore_job(copy, request(accept_verdicts=frozenset()))

    assert (restored.created, leases(source)) == (True, 1)


def test_restore_whose_graph_is_refused_releases_its_lease(copy: JobContext, source: Job) -> None:
    with pytest.raises(RestoreRefusedError):
        restore_job(copy, request(py_files=["more.py"]))

    assert leases(source) == 0


def test_impossible_restore_releases_its_lease(copy: JobContext, source: Job) -> None:
    pin(recorded_job() / "live", source.pin_path(2), {QUERY: BATCH})
    made = source.checkpoint(2, BATCH)
    cut = made.queries[QUERY].model_copy(update={"sink": FILE_SINK})
    source.checkpoints.add(source.leadership, made.model_copy(update={"queries": {QUERY: cut}}))

    with pytest.raises(RestoreRefusedError, match="IMPOSSIBLE"):
        restore_job(copy, request())

    assert source.coordinator.children(source.paths.leases("checkpoint-2")) == []


@pytest.mark.flink(
    "ZooKeeperStateHandleStoreTest#testLockCleanupWhenGetAndLockFails",
    entry=63,
    mutant="plan-keeps-its-lease",
)
def test_plan_that_fails_releases_its_lease(copy: JobContext, source: Job) -> None:
    """A restore that cannot read what it has chosen gives its lease back.

    Flink: ZooKeeperStateHandleStoreTest#testLockCleanupWhenGetAndLockFails [63].
    """
    working = f"{source.keys.base}/live/e1-a"
    generation = Generation(run=1, epoch=1, directory=working)
    source.coordinator.commit(Create(source.paths.generation, generation.to_bytes()))
    (source.config.work_path / working).mkdir(parents=True)
    (source.config.work_path / working / ".carried.json").write_text("garbled")

    with pytest.raises(RecordCorruptError):
        restore_job(copy, request())

    assert source.coordinator.children(source.paths.leases("checkpoint-1")) == []


def test_restore_that_finds_another_live_run_when_it_makes_its_own_releases_its_lease(
    copy: JobContext, source: Job, tmp_path: Path
) -> None:
    def rival(_: object) -> None:
        assert leases(source) == 1
        helpers.submit(copy, helpers.script(tmp_path), request_id="rival")

    with pytest.raises(JobStateError, match="live run"):
        restore_job(interrupted(copy, rival), request())

    assert leases(source) == 0


def test_lost_answer_of_a_run_that_was_made_keeps_the_lease(copy: JobContext, source: Job) -> None:
    def lose(ops: tuple[Op, ...]) -> None:
        copy.coordinator.commit(*ops)
        raise OutcomeUnknownError("the answer was lost")

    restored = restore_job(interrupted(copy, lose), request())

    assert (restored.run, restored.created, leases(source)) == (1, False, 1)


def test_unreadable_outcome_releases_no_lease(copy: JobContext, source: Job) -> None:
    def lose(_: object) -> None:
        cut.coordinator.lost_reads = 1  # type: ignore[attr-defined]
        raise OutcomeUnknownError("the answer was lost")

    cut = interrupted(copy, lose)
    with pytest.raises(NotConnectedError):
        restore_job(cut, request())

    assert leases(source) == 1


def test_a_restore_checks_the_work_root_as_a_submission_does(
    copy: JobContext, source: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a store it may let two drivers create one file: nothing is made there."""

    def lacking(area: LinkedWorkArea) -> Capabilities:
        raise StorageUnavailableError(f"the work root {area.place} does not write conditionally in one step")

    monkeypatch.setattr(LinkedWorkArea, "capabilities", lacking)

    with pytest.raises(StorageUnavailableError, match="does not write conditionally"):
        restore_job(copy, RestoreRequest(job_id="copy", request_id="r", source_job="flights", accept_verdicts=ANY))

    assert copy.runs.numbers() == []


def test_a_restore_that_replaces_files_looks_at_its_storage_once(
    copy: JobContext, source: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, real = [], LinkedWorkArea.capabilities

    def counted(area: LinkedWorkArea) -> Capabilities:
        looks.append(area.place)
        return real(area)

    monkeypatch.setattr(LinkedWorkArea, "capabilities", counted)
    beside = tmp_path / "application" / "settings.ini"
    application = helpers.script(tmp_path)
    beside.write_text("")

    restored = restore_job(copy, request(application=str(application), accept_verdicts=ANY))

    graph = copy.graph_of(copy.runs.get(restored.run).run)
    assert graph.application.name == application.name
    assert beside.name in graph.beside, "what a driver's hint about a missing file needs is replaced, too"
    assert len(looks) == 1


def test_a_restore_on_a_host_without_java_is_refused_as_a_submission_is(
    copy: JobContext, source: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)

    with pytest.raises(ConfigurationError, match="no Java was found by PATH"):
        restore_job(copy, request(accept_verdicts=ANY))

    assert copy.runs.numbers() == []
