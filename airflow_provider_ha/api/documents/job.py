"""One job, the jobs of a cluster, and the driver of a job: lines of its log, and the address of its metrics."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from airflow_provider_ha.api.documents.history import LeaderView
from airflow_provider_ha.api.documents.operation import MovedView
from airflow_provider_ha.api.documents.view import Text, View, shows
from airflow_provider_ha.checkpoints.ownership import ClaimMode
from airflow_provider_ha.errors import HaError
from airflow_provider_ha.jobs.drivers.driver_log import live_page, newest_log, printed_place
from airflow_provider_ha.jobs.model import JobState, QueryStatus, RunResult, StartKind
from airflow_provider_ha.jobs.recovery.losses import attempts_of
from airflow_provider_ha.jobs.recovery.restart_policy import decision_of, outage_of
from airflow_provider_ha.jobs.runs.standbys import Standby, StandbyLevel
from airflow_provider_ha.jobs.runs.submissions import Failure, FailureKind
from airflow_provider_ha.jobs.runs.watchers import WatchStatus, warning


if TYPE_CHECKING:
    from airflow_provider_ha.jobs.condition import JobCondition
    from airflow_provider_ha.jobs.model import Status
    from airflow_provider_ha.jobs.move.move_records import MoveRecord
    from airflow_provider_ha.jobs.options.job_options import HaOptions
    from airflow_provider_ha.jobs.runs.run_store import RunView
    from airflow_provider_ha.jobs.runs.submissions import LastFailure
    from airflow_provider_ha.jobs.status import JobStatus


NO_RUN = "NO_RUN"  # in the place of a state: the job was erased, or its first run is being made
UNREADABLE = "UNREADABLE"


class JobRow(View):
    """One job of a list.

    :param state: State of its newest run; ``NO_RUN`` without one, ``UNREADABLE`` for a job that cannot be read.
    :param run: Number of the newest run.
    :param epoch: Epoch of the latest leadership; 0 when the job was never led.
    :param leader: Its leader, as host and process id; ``null`` without a leader.
    :param checkpoint: Number of the newest retained checkpoint.
    :param error: Why the job cannot be read.
    """

    job_id: str
    state: str
    run: int | None = None
    epoch: int | None = None
    leader: str | None = None
    checkpoint: int | None = None
    error: str | None = None


class JobListView(View):
    """The jobs of a cluster.

    :param jobs: One entry for each.
    """

    jobs: tuple[JobRow, ...]


@shows(RunResult, "state cleanup epoch reason checkpoint drained failure at")
class ResultView(View):
    """How a run ended."""


class LastFailureView(View):
    """How the newest attempt that was lost ended.

    :param in_a_row: Number of newest attempts that have failed, this one included, over all runs that failed; 0 once a
        driver has led for long enough since. From the second one on, the job needs attention in every state.
    """

    kind: FailureKind
    error_class: str
    message: str
    query: str | None
    batches: dict[str, int] | None
    location: str
    run: int | None = None
    attempt: int
    at: datetime | None
    reason: str
    times: int
    since: datetime | None
    in_a_row: int
    log: str

    @property
    def position(self) -> str:
        """Where it failed, for people: the query and the batch; empty when that is not known."""
        return Failure(query=self.query, batches=self.batches).position if self.batches is not None else ""


class StandbyView(View):
    """A living standby driver.

    :param standby_id: Its id, which it keeps as the id of the submission that it becomes.
    :param host: Empty while it waits in the queue of a cluster.
    :param pid: Process id of its Python; 0 while it waits in the queue of a cluster.
    :param level: ``requested``: it waits in the queue of a cluster, or for memory. ``connected``: it waits without
        Spark, or for an executor. ``session``: it is ready, with a Spark session that has executed batches.
    :param since: When it reached the level.
    :param memory: Bytes of its Python and its JVM, some seconds after it reached the level (PSS); 0 before that.
    :param warmed_up_at: When its JVM had executed batches; ``null`` for one that has not.
    :param note: What keeps it from a higher level, or makes its takeover slower; empty for nothing.
    :param log: Location of its log on its host.
    """

    standby_id: str
    host: str
    pid: int
    level: StandbyLevel
    since: datetime
    memory: int
    warmed_up_at: datetime | None
    note: str
    log: str


class StandbysView(View):
    """The standby drivers of a live run.

    :param requested: Number that the run's options request; ``null`` when these cannot be read.
    :param ready: Number of those that have done in advance what the job allows.
    :param drivers: The living ones.
    """

    requested: int | None = 0
    ready: int = 0
    drivers: tuple[StandbyView, ...] = ()

    @property
    def sentence(self) -> str:
        """How many are ready, for people; empty for a job without standby drivers."""
        if not self.requested and not self.drivers:
            return ""
        return f"{self.ready} ready" if self.requested is None else f"{self.ready} of {self.requested} ready"


class JobView(View):
    """One job.

    :param state: State of its newest run; ``NO_RUN`` without one.
    :param run: Number of the newest run.
    :param started_from: Its start: ``fresh``, ``checkpoint``, ``savepoint`` or ``path``.
    :param owner: Owner of the job, a DAG id; ``null`` when it is open to all.
    :param claim_mode: Whether the job became the owner of the checkpoint or savepoint that it started from.
    :param epoch: Epoch of the latest leadership, past or present; 0 when the job was never led.
    :param leader: The leader; ``null`` without a leader.
    :param result: How the run ended; ``null`` while it is live.
    :param checkpoint: Number of the newest retained checkpoint.
    :param message: The last message of the leader, or the reason of the loss.
    :param outage: The outage that the driver waits out, or that ended it; empty without one.
    :param decision: The decision that the run needs from its user, and how to make it; empty without one.
    :param fallback: Checkpoint from which the run continued instead of its last working directory, the reason, and the
        batches that were executed again; empty without such a fallback.
    :param log: Host and path of the newest driver log. For a driver that has not reported its host: the output of its
        supervisor.
    :param log_command: The command that prints it on that host.
    :param spark_ui: Spark's web UI of the driver that leads; ``null`` without one.
    :param application_id: Spark's id of the last application of the job; ``null`` when it has reported none.
    :param queries: Query -> its status, for each query that the script has started.
    :param not_started: The same, for the queries of earlier epochs that the script has not started yet.
    :param attempts: How often the run was submitted.
    :param failure: How the newest attempt that was lost ended; ``null`` when none was.
    :param next_attempt_at: When the restart strategy submits the run again; ``null`` when it is not lost, is never
        submitted again, or its options cannot be read.
    :param watched_by: The processes that would recover the job if its driver were lost now.
    :param warning: The problem and the next step when no process watches a live run; else empty.
    :param moved: The cluster that the job has gone to, or is on its way to; ``null`` while it is here.
    :param metrics: Where its driver serves its metrics to Prometheus, as ``host:port``; empty when nowhere.
    :param class_archive: ``used``, or why its last driver's JVM has loaded Spark's classes without an archive.
    :param first_commit_seconds: Time from the launch of that driver to its first commit; ``null`` before it.
    :param standbys: Its standby drivers: processes that wait to take the job over.
    """

    job_id: str
    state: str
    run: int | None
    started_from: StartKind | None
    owner: str | None
    claim_mode: ClaimMode | None
    epoch: int
    leader: LeaderView | None
    result: ResultView | None
    checkpoint: int | None
    message: str
    outage: str
    decision: str
    fallback: str
    log: str | None
    log_command: str | None
    spark_ui: str | None
    application_id: str | None
    queries: dict[str, QueryStatus]
    not_started: dict[str, QueryStatus]
    attempts: int
    failure: LastFailureView | None
    next_attempt_at: datetime | None
    watched_by: tuple[str, ...]
    warning: str
    moved: MovedView | None
    metrics: str
    class_archive: str
    first_commit_seconds: float | None
    standbys: StandbysView


class QuarantineReleaseView(View):
    """A job that has left quarantine.

    :param released: Always true.
    :param reason: Why it was in quarantine.
    """

    job_id: str
    released: bool = True
    reason: str


def job_row(snapshot: JobStatus) -> JobRow:
    """Return one job of a list."""
    return JobRow(
        job_id=snapshot.job_id,
        state=_state(snapshot),
        run=snapshot.run.run.number if snapshot.run else None,
        epoch=snapshot.epoch,
        leader=f"{snapshot.leader.host}:{snapshot.leader.pid}" if snapshot.leader else None,
        checkpoint=snapshot.latest_checkpoint,
    )


def unreadable_row(job_id: str, error: HaError) -> JobRow:
    """Return a job of a list that cannot be read."""
    return JobRow(job_id=job_id, state=UNREADABLE, error=str(error))


def standbys_view(snapshot: JobStatus, options: HaOptions | None, living: Sequence[Standby]) -> StandbysView:
    """Return the standby drivers of a job; none for a run that is over.

    :param options: Of its newest run; ``None`` when they cannot be read.
    """
    if snapshot.run is None or snapshot.run.result is not None:
        return StandbysView()
    return StandbysView(
        requested=options.standby_drivers if options is not None else None,
        ready=sum(standby.is_ready for standby in living),
        drivers=tuple(StandbyView.of(standby) for standby in living),
    )


def job_view(
    snapshot: JobStatus,
    found: JobCondition,
    watching: WatchStatus,
    moved: MoveRecord | None = None,
    standbys: StandbysView | None = None,
) -> JobView:
    """Return one job: its condition, processes that watch it, new cluster after a move, and standby drivers."""
    run, status, last = snapshot.run, snapshot.status, found.last
    place = newest_log(snapshot.job_id, run)
    message = (status.stalled or status.message) if status else ""
    if last is not None and snapshot.state is JobState.LOST:
        message = last.message
    message = snapshot.refused or message
    return JobView(
        job_id=snapshot.job_id,
        state=_state(snapshot),
        run=run.run.number if run else None,
        started_from=run.run.start.kind if run else None,
        owner=run.run.owner if run else None,
        claim_mode=run.run.start.claim_mode if run else None,
        epoch=snapshot.epoch,
        leader=LeaderView.of(snapshot.leader) if snapshot.leader else None,
        result=ResultView.of(run.result) if run and run.result else None,
        checkpoint=snapshot.latest_checkpoint,
        message=message,
        outage=outage_of(run) if run else "",
        decision=decision_of(run) if run else "",
        fallback=_fallback(snapshot),
        log=f"{place.host}:{place.path}" if place else _printed(run),
        log_command=place.command if place else None,
        spark_ui=live_page(snapshot) or None,
        application_id=(status.application_id or None) if status else None,
        queries=status.queries if status else {},
        not_started=status.not_started if status else {},
        attempts=attempts_of(run),
        failure=_failure(last) if last is not None else None,
        next_attempt_at=found.due,
        watched_by=(*watching.tasks, *watching.cluster),
        warning=warning(snapshot, watching),
        moved=MovedView.of(moved) if moved is not None else None,
        metrics=status.metrics if status else "",
        class_archive=status.class_archive if status else "",
        first_commit_seconds=status.times.first_commit_seconds if status else None,
        standbys=standbys or StandbysView(),
    )


def _state(snapshot: JobStatus) -> str:
    """Return the state of the newest run; of an erased job nothing but its epoch is left."""
    return snapshot.state.value if snapshot.run is not None else NO_RUN


def _printed(run: RunView | None) -> str | None:
    """Return where the newest supervisor printed why it started nothing, where it could not report that."""
    return (printed_place(run.newest) or None) if run is not None and run.newest is not None else None


def _fallback(snapshot: JobStatus) -> str:
    run, generation = snapshot.run, snapshot.generation
    if run is None or generation is None or generation.run != run.run.number or generation.fallback is None:
        return ""
    return generation.fallback.sentence


def _failure(last: LastFailure) -> LastFailureView:
    reported = last.failure or Failure()
    of_driver = ("kind", "error_class", "message", "query", "batches", "location")
    return LastFailureView.of(last, **{name: getattr(reported, name) for name in of_driver})


class MetricsTargetView(View):
    """One element of what Prometheus reads from a file (``file_sd``) or over HTTP (``http_sd``): one job.

    :param targets: Where its driver serves its metrics, as ``host:port``.
    :param labels: ``cluster`` and ``job_id``, as the metrics have them.
    """

    targets: tuple[str, ...]
    labels: dict[str, str]


def targets_of(cluster_id: str, snapshot: JobStatus) -> MetricsTargetView | None:
    """Return where the driver of a job is scraped; ``None`` when it serves no metrics, or the job is over.

    That of a lost driver stays until another one leads: Prometheus then says that it is down.
    """
    run, status = snapshot.run, snapshot.status
    live = run is not None and run.result is None and status is not None and status.run == run.run.number
    if not live or status is None or not status.metrics:
        return None
    return MetricsTargetView(targets=(status.metrics,), labels={"cluster": cluster_id, "job_id": snapshot.job_id})


def out_of_reach(snapshot: JobStatus, here: str) -> str:
    """Return why the target of a job says nothing at host *here*; empty when it is the driver's.

    The loopback of another host has nothing, or another driver: the job would seem lost, or its loss would not be seen.
    """
    status = snapshot.status
    if status is None or not _is_loopback(status.metrics):
        return ""
    host = _host_of(snapshot, status)
    if host == here:
        return ""
    where = f"host {host}" if host else "a host that is not known"
    return (
        f"its driver serves metrics at {status.metrics} of {where}, which {here} cannot reach. Set metrics_address of "
        "the job to 0.0.0.0, or to an address that each of its hosts has"
    )


def _host_of(snapshot: JobStatus, status: Status) -> str:
    """Return the host of the driver that wrote the status; empty when that is not known."""
    leader = snapshot.leader
    if leader is not None:
        return leader.host if leader.epoch == status.epoch else ""
    submissions = snapshot.run.submissions if snapshot.run is not None else ()
    # The next submission may wait for its leadership already, on another host.
    led = [each for each in submissions if each.created_zxid <= snapshot.epoch_zxid]
    return led[-1].started.handle.log_host if led and led[-1].started is not None else ""


def _is_loopback(place: str) -> bool:
    host = place.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class LogView(View):
    """The last lines of a log.

    :param path: The file there.
    :param lines: The lines, without secrets.
    """

    job_id: str
    run: int
    attempt: int
    host: str
    path: Text
    lines: tuple[str, ...]


class LogLineView(View):
    """One line of a log that is followed.

    :param line: The line, without secrets.
    """

    job_id: str
    run: int
    attempt: int
    line: str
