"""Records of a submission, and the failure that its driver exits with.

The kind is for people and for the count of attempts. Whether an error ends its run depends on the progress of the run
(``recovery.repeated``).
"""

from __future__ import annotations

import re
from datetime import datetime
from enum import Enum
from typing import ClassVar
from urllib.parse import quote, unquote, urlsplit

from airflow_provider_ha.records import Model, Record


MESSAGE_LIMIT = 500  # characters: the record lies in ZooKeeper
NAME_LIMIT = 200  # characters of a class, and of a location
STALLED = "STALLED"  # in the place of a class: the driver ended itself, because the job committed nothing
_VARIABLE = re.compile(r"0x[0-9a-fA-F]+|\b[0-9a-f]{8}-[0-9a-f-]{27}\b|\d+|'[^']*'|\"[^\"]*\"")


class FailureKind(str, Enum):
    """Whose error it was."""

    APPLICATION = "APPLICATION"  # the script's, or of a query as the script wrote it
    OUTAGE = "OUTAGE"  # of a connection, storage, memory, an executor, a broker or ZooKeeper
    UNKNOWN = "UNKNOWN"


class Failure(Model):
    """One failure of a driver. Holds no secret.

    :param kind: Whose error it was.
    :param error_class: Class of the exception, or Spark's condition in brackets.
    :param message: The first line of its message.
    :param query: Query that failed; ``None`` when the script did.
    :param batches: Query -> last committed batch: of the query that failed, or of all queries of the run. ``None`` when
        it could not be read.
    :param location: Innermost line of the application in the traceback; empty without one.
    :param refused: Key of the working directory in which Spark could not start a query; empty for any other failure.
    :param misfit: Reason why retries cannot help, and the way back: Spark refuses to continue from the checkpoint with
        this query. Empty for any other failure.
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
        """Return for people where it failed."""
        batches = {name: batch for name, batch in (self.batches or {}).items() if batch >= 0}
        if self.query is not None:
            when = f"after batch {batches[self.query]}" if self.query in batches else "before its first batch"
            return f"query {self.query!r} {when}"
        after = ", ".join(f"batch {batch} of {name!r}" for name, batch in sorted(batches.items()))
        return f"the script after {after}" if after else "the script before any batch"

    def repeats(self, other: Failure) -> bool:
        """Whether it is the same error at the same batch.

        The message varies with the rows, and their order with the attempt: it decides only without a location.
        """
        if self.batches is None or other.batches is None:
            return False
        return self._fingerprint() == other._fingerprint()

    def resembles(self, other: Failure) -> bool:
        """Whether it is the same error at the same place, at whichever batch."""
        return self._place() == other._place()

    def _fingerprint(self) -> tuple[object, ...]:
        return (*self._place(), tuple(sorted((self.batches or {}).items())))

    def _place(self) -> tuple[object, ...]:
        return (self.kind, self.error_class, self.query, self.location or _VARIABLE.sub("_", self.message))


class EarlierFailures(Model):
    """The failures in a row with which the runs before a run have ended. Holds no secret.

    :param count: How many attempts of these runs.
    :param run: Number of the newest of these runs.
    :param attempt: Its last attempt; 0 when it had none.
    :param at: When it ended.
    :param reason: What failed and where, in one line.
    :param log: Where the driver's log is.
    """

    count: int
    run: int
    attempt: int
    at: datetime
    reason: str
    log: str = ""


class Submission(Record):
    """``runs/<n>/submissions/<k>``: created once, before the engine is asked.

    :param attempt: Counts from 1 per run; only the newest one may lead.
    :param submission_id: Our own id, in the process's environment and in the engine's tags.
    :param requested_by: The submitter: request id, host, pid.
    :param lost_epoch: Epoch whose loss this recovers; ``None`` for the first.
    :param accept_loss: Whether its request accepts that the batch in flight is executed without input that is gone.
    """

    kind: ClassVar[str] = "submission"

    attempt: int
    submission_id: str
    requested_by: str
    engine: str
    lost_epoch: int | None = None
    accept_loss: bool = False
    created_at: datetime


class DriverHandle(Model):
    """How an engine finds again what it has launched. Opaque to everything but that engine; holds no secret.

    :param engine: Name of the engine.
    :param ref: The engine's own reference, of plain values.
    :param log_uri: The driver's log: ``file://<host>/<path>`` for a file on a host; empty when the engine has none.
    :param ui_uri: The driver's page; empty when the engine knows none.
    :param printed: For people: where a supervisor without a log prints; empty where none does.
    """

    engine: str
    ref: dict[str, str | int | float | None] = {}
    log_uri: str = ""
    ui_uri: str = ""
    printed: str = ""

    @property
    def log_host(self) -> str:
        """Host that has the log's file; empty for a log that is no file."""
        found = urlsplit(self.log_uri)
        return found.netloc if found.scheme == "file" else ""

    @property
    def log_path(self) -> str:
        """Path of the log on its host; the URI of a log that is no file."""
        found = urlsplit(self.log_uri)
        return unquote(found.path) if found.scheme == "file" else self.log_uri


class SubmissionStarted(Record):
    """What the engine said when it took the submission.

    :param refused: Why the supervisor has ended without a driver. No proof of a death: another one may work.
    """

    kind: ClassVar[str] = "submission-started"

    handle: DriverHandle
    refused: str = ""


def file_uri(host: str, path: str) -> str:
    """Return the URI of a file of a host; empty for no path."""
    return f"file://{host}{quote(path if path.startswith('/') else '/' + path)}" if path else ""


class SubmissionLed(Record):
    """``runs/<n>/submissions/<k>/led``: a submission leads once, in one process; a relaunch of it is refused.

    :param process: Made up by the process that led.
    """

    kind: ClassVar[str] = "submission-led"

    process: str
    epoch: int
    host: str
    pid: int
    at: datetime


NOT_LAUNCHED = 70  # EX_SOFTWARE, as the exit code of a submission that never had a driver


class SubmissionExit(Record):
    """How a submission's processes ended. Written only after all of them are dead: it is the proof of death.

    :param code: Exit code of the driver; negative for a signal.
    :param pids: Every process that could have written for the job, all gone.
    :param reason: For people, with the last lines that matter.
    :param outage: Whether storage or ZooKeeper kept it from running the script: such an end counts as no attempt.
    :param failure: The driver's report of its failure; ``None`` for one that was killed, or ended without a report.
    :param decision: The decision that the run needs from its user, and how to make it; empty without one.
    :param last_lines: Of the driver's log, without secrets, for hosts that do not have it.
    :param refused: Why no host can run it; ends the run. Empty when nothing.
    :param unfit: Whether its host lacks what another one had for the run.
    :param ran: Whether the job was RUNNING under it: every query had committed a batch, or found no data.
    :param started: Whether its script had started a query.
    :param committed: Whether a query had committed a batch under it, of those that no earlier driver had planned.
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
    at: datetime

    @property
    def met_outage(self) -> bool:
        """Whether an outage ended it, before or while the script ran: it counts as no attempt."""
        return self.outage or (self.failure is not None and self.failure.kind is FailureKind.OUTAGE)

    @property
    def counts(self) -> bool:
        """Whether it counts as an attempt: not when an outage, its working directory or its host was what failed."""
        lost_directory = bool(self.decision) or (self.failure is not None and bool(self.failure.refused))
        return not self.met_outage and not lost_directory and not self.unfit
