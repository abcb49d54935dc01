"""Why a driver failed, as its exit says it: what kind of error it was, and at which batch.

The kind is for people and for the count of attempts. Whether an error ends its run depends on the progress of the run
(``recovery.repeated``).
"""

from __future__ import annotations

import re
from datetime import datetime
from enum import Enum

from airflow_provider_ha.records import Model


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
