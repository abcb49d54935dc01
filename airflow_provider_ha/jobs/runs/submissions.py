"""Records of a submission, and the failure that its driver exits with.

The kind of a failure is shown to users and affects the count of attempts. Whether an error ends its run depends on the
run's progress (``jobs.recovery.restart_policy``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import ClassVar
from urllib.parse import quote, unquote, urlsplit

from airflow_provider_ha.records import Model, Record


MESSAGE_LIMIT = 500  # characters, because the record is stored in ZooKeeper
NAME_LIMIT = 200  # characters of a class or a location
STALLED = "STALLED"  # instead of a class: the driver ended itself because the job made no commits
_VARIABLE = re.compile(r"0x[0-9a-fA-F]+|\b[0-9a-f]{8}-[0-9a-f-]{27}\b|\d+|'[^']*'|\"[^\"]*\"")


class FailureKind(str, Enum):
    """Origin of a failure."""

    APPLICATION = "APPLICATION"  # the script, or a query as the script defines it
    OUTAGE = "OUTAGE"  # a connection, storage, memory, an executor, a broker or ZooKeeper
    UNKNOWN = "UNKNOWN"


class Failure(Model):
    """A failure of a driver. Holds no secret.

    :param kind: Origin of the failure; ``UNKNOWN`` if the driver reported none.
    :param error_class: Class of the exception, or Spark's condition in brackets.
    :param message: First line of the exception's message.
    :param query: Query that failed; ``None`` if the script failed.
    :param batches: Query -> last committed batch, for the failed query or for all queries of the run. ``None`` if they
        could not be read.
    :param location: Innermost line of the application in the traceback; empty without a traceback.
    :param refused: Key of the working directory in which Spark could not start a query; empty for other failures.
    :param misfit: Reason why retries cannot help, and the remedy: Spark refuses to continue from the checkpoint with
        this query. Empty for other failures.
    """

    kind: FailureKind = FailureKind.UNKNOWN
    error_class: str = ""
    message: str = ""
    query: str | None = None
    batches: dict[str, int] | None = None
    location: str = ""
    refused: str = ""
    misfit: str = ""

    @property
    def error(self) -> str:
        """Class and message, as Python prints them."""
        return f"{self.error_class}: {self.message}" if self.message else self.error_class

    @property
    def position(self) -> str:
        """Position of the failure, for users."""
        batches = {name: batch for name, batch in (self.batches or {}).items() if batch >= 0}
        if self.query is not None:
            when = f"after batch {batches[self.query]}" if self.query in batches else "before its first batch"
            return f"query {self.query!r} {when}"
        after = ", ".join(f"batch {batch} of {name!r}" for name, batch in sorted(batches.items()))
        return f"the script after {after}" if after else "the script before any batch"

    def repeats(self, other: Failure) -> bool:
        """Return whether it is the same error at the same batch.

        A message varies with the rows, whose order varies by attempt, so it counts only without a location.
        """
        if self.batches is None or other.batches is None:
            return False
        return self._fingerprint() == other._fingerprint()

    def resembles(self, other: Failure) -> bool:
        """Return whether it is the same error at the same place, at any batch."""
        return self._place() == other._place()

    def _fingerprint(self) -> tuple[object, ...]:
        return (*self._place(), tuple(sorted((self.batches or {}).items())))

    def _place(self) -> tuple[object, ...]:
        return (self.kind, self.error_class, self.query, self.location or _VARIABLE.sub("_", self.message))


class EarlierFailures(Model):
    """The consecutive failures of the runs before a run. Holds no secret.

    :param count: Number of failed attempts.
    :param run: Number of the newest failed run.
    :param attempt: Its last attempt; 0 if it had none.
    :param at: Time at which the run ended.
    :param reason: Error and position, in one line.
    :param log: Location of the driver's log.
    """

    count: int
    run: int
    attempt: int
    at: datetime
    reason: str
    log: str = ""


class DriverHandle(Model):
    """An engine's handle for a launched driver. Opaque to all code except that engine; holds no secret.

    :param engine: Name of the engine.
    :param ref: The engine's own reference, as plain values.
    :param log_uri: The driver's log: ``file://<host>/<path>`` for a file on a host; empty without a log.
    :param ui_uri: The driver's page; empty if unknown.
    :param printed: Destination of a supervisor's output if it has no log, for users; empty if unknown.
    """

    engine: str
    ref: dict[str, str | int | float | None] = {}
    log_uri: str = ""
    ui_uri: str = ""
    printed: str = ""

    @property
    def log_host(self) -> str:
        """Host of the log file; empty for a log that is no file."""
        found = urlsplit(self.log_uri)
        return found.netloc if found.scheme == "file" else ""

    @property
    def log_path(self) -> str:
        """Path of the log on its host; the URI of a log that is no file."""
        found = urlsplit(self.log_uri)
        return unquote(found.path) if found.scheme == "file" else self.log_uri


class Submission(Record):
    """``runs/<n>/submissions/<k>``: created once, before the request to the engine.

    :param attempt: Counts from 1 per run; only the newest attempt may lead.
    :param submission_id: Id made by this package, in the process's environment and in the engine's tags.
    :param requested_by: The submitter: request id, host, process id.
    :param lost_epoch: Epoch whose loss this submission recovers; ``None`` for the first submission.
    :param accept_loss: Whether the request accepts that the batch in flight is executed without its missing input.
    :param reserved: Handle that the engine will give to the driver; ``None`` if only the launch determines it.
    :param standby: Whether its driver waited as a standby driver before: its directory has the name of the id.
    """

    kind: ClassVar[str] = "submission"

    attempt: int
    submission_id: str
    requested_by: str
    engine: str
    lost_epoch: int | None = None
    accept_loss: bool = False
    reserved: DriverHandle | None = None
    standby: bool = False
    created_at: datetime


class SubmissionStarted(Record):
    """The engine's response to a submission.

    :param refused: Reason why the supervisor ended without a driver. Not a proof of death: another supervisor may work.
    """

    kind: ClassVar[str] = "submission-started"

    handle: DriverHandle
    refused: str = ""

    def refusal(self, run: int, attempt: int) -> str:
        """Return the sentence that reports the refusal; empty without one."""
        return f"attempt {attempt} of run {run} has started no driver: {self.refused}" if self.refused else ""


def file_uri(host: str, path: str) -> str:
    """Return the URI of a file on a host; empty for an empty path."""
    return f"file://{host}{quote(path if path.startswith('/') else '/' + path)}" if path else ""


class SubmissionLed(Record):
    """``runs/<n>/submissions/<k>/led``: a submission leads once, in one process; a relaunched process is refused.

    :param process: Random id of the leading process.
    :param class_archive: ``used``, or why its JVM has loaded its classes without an archive.
    """

    kind: ClassVar[str] = "submission-led"

    process: str
    epoch: int
    host: str
    pid: int
    at: datetime
    class_archive: str = ""


class StartTimes(Model):
    """When a driver completed the phases of its start, by the clock of its host; ``None`` for a phase not completed.

    :param launched_at: Its JVM was started; of a standby driver: it saw the loss.
    :param bound_at: Its working directory was current: the lost epoch is fenced, its files are forked.
    :param started_at: The script had started a query.
    :param committed_at: A query had committed a batch that no earlier driver had planned.
    """

    launched_at: datetime | None = None
    bound_at: datetime | None = None
    started_at: datetime | None = None
    committed_at: datetime | None = None

    @property
    def first_commit_seconds(self) -> float | None:
        """Time from the launch to the first commit; ``None`` before it."""
        if self.launched_at is None or self.committed_at is None:
            return None
        return round((self.committed_at - self.launched_at).total_seconds(), 2)


MEGABYTE = 1_000_000


class StateRestore(Model):
    """How tasks read the state of a query, from its start to its first commit under a driver.

    :param copy_files: Files that they read from copies on their hosts' disks.
    :param copy_bytes: Bytes of these.
    :param store_files: Files that they read from the store.
    :param store_bytes: Bytes of these.
    :param seconds: Time of these reads, of all tasks together.
    :param placed: Partitions for which Spark was told of an executor whose host has copies of them.
    :param off: Why the query has no copies; empty when it has.
    """

    copy_files: int = 0
    copy_bytes: int = 0
    store_files: int = 0
    store_bytes: int = 0
    seconds: float = 0.0
    placed: int = 0
    off: str = ""

    @property
    def sentence(self) -> str:
        """Figures and reason, for people."""
        parts = ((self.copy_files, self.copy_bytes, "copies"), (self.store_files, self.store_bytes, "the store"))
        read = ", ".join(
            f"{files} file{'s' if files != 1 else ''} ({size / MEGABYTE:.1f} MB) from {place}"
            for files, size, place in parts
        )
        placed = f", {self.placed} partitions placed where their copies are" if self.placed else ""
        return f"{read}, {self.seconds:.1f} s{placed}" + (f"; off: {self.off}" if self.off else "")


class StateRestores(Model):
    """What a driver has noted on its host.

    :param queries: Query -> how tasks read its state.
    """

    queries: dict[str, StateRestore] = {}


NOT_LAUNCHED = 70  # EX_SOFTWARE: the exit code of a submission that never had a driver


class SubmissionExit(Record):
    """The end of a submission's processes. Written only after all of them are dead, so it is the proof of death.

    :param code: Exit code of the driver; negative for a signal.
    :param pids: Every process that could have written for the job, all dead.
    :param reason: Description for users, with the relevant last lines.
    :param outage: Whether storage or ZooKeeper prevented the script from running; such an end is not an attempt.
    :param failure: The driver's report of its failure; ``None`` if it was killed, or ended without a report.
    :param decision: A decision that the run needs from its user, and how to make it; empty without one.
    :param last_lines: Last lines of the driver's log, without secrets, for hosts without access to the log.
    :param refused: Reason why the submission cannot run on any host; ends the run. Empty otherwise.
    :param unfit: Whether the host lacks a requirement of the run that another host had.
    :param ran: Whether the job was RUNNING under it: every query had committed a batch, or found no data.
    :param started: Whether its script had started a query.
    :param committed: Whether a query had committed a batch that no earlier driver had planned.
    :param times: When the driver completed the phases of its start.
    :param handed_over: Whether a person asked for this end, so that a standby driver continues; it is no attempt.
    :param state_restores: Query -> how tasks read its state until its first commit, with ``local_recovery``.
    """

    kind: ClassVar[str] = "submission-exit"

    code: int
    pids: tuple[int, ...] = ()
    reason: str = ""
    log: str = ""
    outage: bool = False
    failure: Failure | None = None
    decision: str = ""
    last_lines: str = ""
    refused: str = ""
    unfit: bool = False
    ran: bool = False
    started: bool = False
    committed: bool = False
    times: StartTimes = StartTimes()
    handed_over: bool = False
    state_restores: dict[str, StateRestore] = {}
    at: datetime

    @property
    def met_outage(self) -> bool:
        """``True`` if an outage ended the submission, before or while the script ran; such an end is not an attempt."""
        return self.outage or (self.failure is not None and self.failure.kind is FailureKind.OUTAGE)

    @property
    def counts(self) -> bool:
        """``True`` if the end is an attempt: not after an outage, or a failure of its working directory or its host.

        Nor if the driver handed the job over.
        """
        lost_directory = bool(self.decision) or (self.failure is not None and bool(self.failure.refused))
        return not (self.met_outage or lost_directory or self.unfit or self.handed_over)


LOOPS_FROM = 2  # failures in a row: the first one may be resolved when the next attempt runs


@dataclass(frozen=True, slots=True, kw_only=True)
class LastFailure:
    """The end of a job's newest lost attempt.

    :param run: Number of its run if that is an earlier one (the newest run has lost no attempt); else ``None``.
    :param attempt: Its number.
    :param at: Time at which all its processes were dead; ``None`` without proof.
    :param reason: As its supervisor wrote it.
    :param failure: As the driver reported it; ``None`` for a killed driver.
    :param times: Number of times that this error has occurred at this place; 0 for an end without an error.
    :param since: When it came first.
    :param in_a_row: Number of newest attempts that have failed, this one included, over all runs that failed; 0 once a
        driver has led for long enough since, or the run is over without a failure.
    :param log: Location of the driver's log.
    """

    run: int | None = None
    attempt: int
    at: datetime | None
    reason: str
    failure: Failure | None
    times: int
    since: datetime | None
    in_a_row: int
    log: str

    @property
    def loops(self) -> bool:
        """Whether a person should check the job for this, in each state between two attempts."""
        return self.in_a_row >= LOOPS_FROM

    @property
    def message(self) -> str:
        """Return in one line what failed, and where."""
        return _in_one_line(self.failure, self.reason)

    @property
    def sentence(self) -> str:
        """Return the message with the attempt, and how often it has come."""
        often = f", {self.times} times since {self.since:%Y-%m-%d %H:%M:%S} UTC" if self.times > 1 else ""
        row = f"; {self.in_a_row} attempts in a row have failed" if self.loops else ""
        which = f"run {self.run}, " if self.run is not None else ""
        return f"{which}attempt {self.attempt}: {self.message}{often}{row}"


def how_it_ended(left: SubmissionExit) -> str:
    """Return in one line how an attempt ended: the failure, and its place."""
    return _in_one_line(left.failure, left.reason)


def _in_one_line(failure: Failure | None, reason: str) -> str:
    if failure is None:
        return reason.partition("\n")[0]
    where = f" in {failure.position}" if failure.batches is not None else ""
    return f"{failure.kind.value} {failure.error}{where}"
