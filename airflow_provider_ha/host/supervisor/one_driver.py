"""Record of the only driver of a submission, and the supervisor's ZooKeeper sessions.

A request to a cluster manager that was sent twice, or repeated because its answer was lost, makes two drivers of a
submission on two machines. The second must not act: its supervisor would write an exit, which proves the death of a
driver that lives.

So before it starts any process, the supervisor records its place, or finds another driver on record. The record also
locates a submission whose submitter got no answer.

A supervisor holds no session while its driver lives, because the driver's own session leads. Each step after a death
opens a session, so that after an outage the step is repeated with a fresh one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.coordinator import SetData
from airflow_provider_ha.coordination.znode_records import create_once, read_record
from airflow_provider_ha.errors import CoordinationError, HaError, JobStateError
from airflow_provider_ha.jobs.cluster_roots import RootsOfCluster
from airflow_provider_ha.jobs.drivers.driver_spec import DriverSpec
from airflow_provider_ha.jobs.job_records import JobRecords
from airflow_provider_ha.jobs.runs.submissions import DriverHandle, Submission, SubmissionStarted
from airflow_provider_ha.redaction import public
from airflow_provider_ha.storage.open_storage import open_store


@contextmanager
def connected(spec: DriverSpec) -> Iterator[JobRecords]:
    """Yield the job of a submission, over a session that ends with the block.

    :raises NotConnectedError: No ZooKeeper server answers.
    :raises StorageError: The storage cannot be opened.
    """
    with closing(KazooCoordinator.connect(spec.config)) as coordinator:
        yield JobRecords(
            job_id=spec.job_id,
            config=spec.config,
            coordinator=coordinator,
            store=open_store(spec.config, RootsOfCluster(spec.config, coordinator)),
            clock=SystemClock(),
        )


log = logging.getLogger("airflow_provider_ha.host.supervisor")

NOTE_SECONDS = 15.0  # seconds in which a supervisor that starts nothing tries to report that
TRY_SECONDS = 600.0  # seconds that a supervisor waits for ZooKeeper before it gives up without a start
_PAUSE = 1.0


def take_place(spec: DriverSpec, *, stopped: Callable[[], bool]) -> None:
    """Record that this machine runs the submission, or find that record.

    :param stopped: Returns whether the supervisor has received a request to end.
    :raises JobStateError: Another driver is on record, or the submission does not exist.
    :raises HaError: ZooKeeper did not answer in time; this process started no driver.
    """
    end = time.monotonic() + TRY_SECONDS
    while True:
        try:
            with connected(spec) as job, _report_failure(job, spec):
                _take_place(job, spec)
                return
        except HaError as error:  # noqa: PERF203  # a retry is a try in a loop
            if not error.retryable or stopped() or time.monotonic() > end:
                raise
            log.warning("the submission cannot be reported yet: %s", error)
            time.sleep(_PAUSE)


def note_refusal(spec: DriverSpec, reason: str) -> None:
    """Record with the submission why this process ends without a driver. It is no exit: another driver may work."""
    end = time.monotonic() + NOTE_SECONDS
    while time.monotonic() < end:
        try:
            with connected(spec) as job:
                if _write_refusal(job, spec, reason):
                    return
        except HaError as error:
            log.warning("the reason for starting no driver cannot be recorded yet: %s", error)
        time.sleep(_PAUSE)  # the submitter writes that node once it knows this process


@contextmanager
def _report_failure(job: JobRecords, spec: DriverSpec) -> Iterator[None]:
    """Record with the submission the obstacle to starting the driver here, such as a missing mount."""
    try:
        yield
    except (CoordinationError, JobStateError):
        raise  # ZooKeeper is unreachable, or the submission is not this process's
    except HaError as error:
        _write_refusal(job, spec, str(error))  # this process's own log exists on this machine only
        raise


def _write_refusal(job: JobRecords, spec: DriverSpec, reason: str) -> bool:
    path = job.paths.submission_started(spec.run, spec.attempt)
    found = read_record(job.coordinator, path, SubmissionStarted)
    if found is None:
        return False
    job.commit(SetData(path, found[0].model_copy(update={"refused": public(reason)}).to_bytes(), found[1]))
    return True


def _take_place(job: JobRecords, spec: DriverSpec) -> None:
    own = SubmissionStarted(handle=spec.handle)
    path = job.paths.submission_started(spec.run, spec.attempt)
    submission = _open_submission(job, spec)
    create_once(job.coordinator, path, own)
    found = read_record(job.coordinator, path, SubmissionStarted)
    if found is None or not _same(found[0].handle, spec.handle):
        raise JobStateError(
            f"attempt {spec.attempt} of run {spec.run} is another driver: {found and found[0].handle.ref}",
            next_step="Nothing needs to be done: this one ends, and has started nothing",
        )
    if found[0] != own:  # written by the submitter, which does not know the machine
        job.commit(SetData(path, own.to_bytes(), found[1]))
    job.journal.started(spec.run, submission, own)


def _open_submission(job: JobRecords, spec: DriverSpec) -> Submission:
    for view in job.runs.get(spec.run).submissions:
        if view.submission.submission_id == spec.submission_id and view.exit is None:
            return view.submission
    raise JobStateError(
        f"run {spec.run} of job {spec.job_id!r} has no submission {spec.submission_id}, or it is over",
        next_step="Nothing needs to be done: this driver ends, and has started nothing",
    )


def _same(one: DriverHandle, other: DriverHandle) -> bool:
    """Return whether two handles refer to the same driver. Only its machine knows its log and page."""
    return (one.engine, one.ref) == (other.engine, other.ref)
