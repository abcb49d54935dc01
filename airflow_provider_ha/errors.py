"""Errors that this package raises.

Each leaf is one condition; a caller handles the bases. The type of an error, never its message, decides whether a
retry can help. Foreign exceptions are translated at one place per library: kazoo's in ``coordination/_kazoo.py``,
boto3's in ``storage/_s3_bucket.py``, Spark's in ``driver/``. They become Airflow's only in the Airflow layer, and exit
codes only in ``driver/`` and ``cli/``::

    HaError
    |- ConfigurationError                the user's input cannot work
    |- EngineUnavailableError            (retry) no manager of the engine's cluster answered; no driver was started
    |- CoordinationError
    |  |- NotConnectedError              (retry) no ZooKeeper server answered
    |  |- OutcomeUnknownError            (retry after reading back) sent, but no answer came
    |  |- NodeMissingError | NodeExistsError | VersionConflictError      a transaction was rejected, without effect
    |  `- LeadershipError
    |     |- LeadershipLostError         the lease ran out or the session ended
    |     |- LeadershipUnavailableError  another process leads and does not give way
    |     `- FencedError                 another epoch owns the job
    |- StorageError
    |  |- ObjectMissingError             the object does not exist
    |  |- ObjectExistsError              a conditional write lost the race
    |  `- StorageUnavailableError        (retry) it could not be read or written; existence stays unknown
    |- RecordCorruptError                a record was read, but differs from the written one
    |  `- RecordTooNewError              a newer release wrote it
    |- CheckpointError
    |  |- CheckpointCorruptError         known bad, with the file and the reason
    |  |- CheckpointMissingError         it is missing, or not the named one
    |  |- RestoreRefusedError            the plan is not SAFE and no request accepts it by name
    |  `- RestoreUnknownError            (retry) the content of a source or a sink is undetermined
    `- JobError
       |- UnknownJobError
       |- JobStateError                  the state of the job does not allow the request
       |  `- DecisionNeededError         the run continues only after a decision of its user, which the message names
       |- LogMissingError                the log of a driver is not on this host
       |- ApplicationRefusedError        the user's script cannot be made highly available as it is
       `- OperationFailedError           the driver reported why it failed
"""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from airflow_provider_ha.query_names import shown


__all__ = [
    "ApplicationRefusedError",
    "CheckpointCorruptError",
    "CheckpointError",
    "CheckpointMissingError",
    "ConfigurationError",
    "CoordinationError",
    "DecisionNeededError",
    "EngineUnavailableError",
    "FencedError",
    "HaError",
    "JobError",
    "JobStateError",
    "LeadershipError",
    "LeadershipLostError",
    "LeadershipUnavailableError",
    "LogMissingError",
    "NodeExistsError",
    "NodeMissingError",
    "NotConnectedError",
    "ObjectExistsError",
    "ObjectMissingError",
    "OperationFailedError",
    "OutcomeUnknownError",
    "RecordCorruptError",
    "RecordTooNewError",
    "RestoreRefusedError",
    "RestoreUnknownError",
    "StorageError",
    "StorageUnavailableError",
    "UnknownJobError",
    "VersionConflictError",
]


class HaError(Exception):
    """Root of all errors of this package.

    The text of an error names the problem, the object, and the next step.

    :param message: The problem and its object, as one sentence without a final stop.
    :param next_step: The reader's possible action, as one sentence without a final stop.
    :param options: Options that the text names, as an operator writes them: ``start_from``. The command shows them as
        its own: ``--start-from``.
    """

    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, next_step: str = "", options: tuple[str, ...] = ()) -> None:
        self.message = shown(message)
        self.next_step = shown(next_step)
        self.options = options
        super().__init__(f"{self.message}. {self.next_step}." if next_step else f"{self.message}.")


class ConfigurationError(HaError, ValueError):
    """The user's input cannot work: a wrong URI, an unreachable timing, a missing option."""


class EngineUnavailableError(HaError):
    """No manager of the engine's cluster takes a driver now: none was started, and the outage is no attempt."""

    retryable = True


class CoordinationError(HaError):
    """ZooKeeper refused, or did not answer.

    :ivar path: The node for which a transaction was rejected; empty for everything else.
    """

    path: str = ""


class NotConnectedError(CoordinationError):
    """No ZooKeeper server answered, so the request was not sent."""

    retryable = True


class OutcomeUnknownError(CoordinationError):
    """A write was sent and no answer came: it may or may not have been applied. Read back before doing anything."""

    retryable = True


class NodeMissingError(CoordinationError):
    """A node that has to exist does not; the transaction changed nothing."""


class NodeExistsError(CoordinationError):
    """A node that must not exist does; the transaction changed nothing."""


class VersionConflictError(CoordinationError):
    """A node changed since it was read; the transaction changed nothing."""


class LeadershipError(CoordinationError):
    """This process may no longer act as the leader."""


class LeadershipLostError(LeadershipError):
    """The lease ran out or the session ended."""


class LeadershipUnavailableError(LeadershipError):
    """Another process leads the job and did not give way in time, or the wait was called off."""


class FencedError(LeadershipError):
    """Another epoch owns the job. Final: the process has to exit (design, contract 1)."""


class StorageError(HaError):
    """The file system or object store refused, or did not answer."""


class ObjectMissingError(StorageError):
    """The object does not exist, according to the store's answer."""


class ObjectExistsError(StorageError):
    """A conditional write found another object under its name."""


class StorageUnavailableError(StorageError):
    """The store could not be read or written. Objects may exist: never delete because of this error."""

    retryable = True


class RecordCorruptError(HaError):
    """A record was read, but differs from the written one: wrong checksum, not JSON, unknown version."""


class RecordTooNewError(RecordCorruptError):
    """A newer release wrote the record: this one cannot read it, and it may be whole."""


class CheckpointError(HaError):
    """Something is wrong with a checkpoint or savepoint."""


class CheckpointCorruptError(CheckpointError):
    """A checkpoint is known to be bad.

    :param path: The bad file, relative to the checkpoint.
    :param reason: The expected and the actual content.
    """

    def __init__(self, path: str, reason: str, *, next_step: str = "") -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"checkpoint file {path!r} is bad: {reason}", next_step=next_step)

    def __reduce__(self) -> tuple[object, ...]:
        # Passed between processes: an exception is rebuilt from the arguments of its base.
        return partial(type(self), next_step=self.next_step), (self.path, self.reason)


class CheckpointMissingError(CheckpointError):
    """There is no checkpoint, or not the named one."""


class RestoreUnknownError(CheckpointError):
    """The content of a source or a sink could not be determined, so the consequences of the restore are unknown."""

    retryable = True


class RestoreRefusedError(CheckpointError):
    """A restore would lose or repeat rows, and the request does not accept that by name."""


class JobError(HaError):
    """Something is wrong with a job."""


class UnknownJobError(JobError):
    """The job id is unknown in this cluster.

    :ivar known: The known ids.
    """

    known: tuple[str, ...] = ()


class JobStateError(JobError):
    """The state of the job does not allow the request."""


class DecisionNeededError(JobStateError):
    """A lost run cannot continue without a risk for its output: its user has to choose the starting point."""


class LogMissingError(JobError):
    """The log of a driver is not on this host: it is on another one, is gone, is no file, or was never written."""


class ApplicationRefusedError(JobError):
    """The user's script cannot be made highly available as it is (unnamed query, own checkpoint location)."""


class OperationFailedError(JobError):
    """The driver received the request for an operation and reported why it failed."""
