"""What goes wrong with a transaction on its way, and the count of everything that happened.

A fault is asked for in advance and meets the next transaction that it fits. It is counted when it takes effect, so the
count says what a schedule has really tried.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum

from airflow_provider_ha.coordination.coordinator import Op


class Fault(Enum):
    """What can happen to a request or to its sender."""

    DROP_REQUEST = "drop request"
    DROP_REPLY = "drop reply"
    DELAY = "delay request"
    DISCONNECT = "disconnect"
    EXPIRE = "expire session"
    CLOSE = "close session from outside"
    LAG = "lag"
    PARTITION = "partition"
    MOVE = "move session"
    PAUSE = "pause process"
    KILL = "kill process"


class Outcome(Enum):
    """How a request, or the session that sent it, ended."""

    APPLIED = "applied"
    REJECTED = "rejected"
    UNKNOWN_APPLIED = "unknown, was applied"
    UNKNOWN_NOT_APPLIED = "unknown, was not applied"
    NOT_SENT = "not sent"
    LATE_APPLIED = "applied late"
    LATE_REJECTED = "rejected late"
    REPLAYED = "replayed under the next session"
    STALE_READ = "stale read"
    SESSION_EXPIRED = "session expired"
    SUSPENDED = "suspended"
    RECONNECTED = "reconnected"
    LOST = "session lost"


@dataclass(frozen=True, slots=True)
class Planned:
    """A fault that waits for its transaction.

    :param client: Name of the process whose transaction it meets; ``None`` for that of any process.
    :param containing: Text that one of the transaction's paths contains.
    :param milliseconds: How long a delay lasts.
    """

    fault: Fault
    client: str | None
    containing: str
    milliseconds: int = 0

    def fits(self, client: str, ops: tuple[Op, ...]) -> bool:
        """Whether this transaction is the one."""
        return self.client in {None, client} and any(self.containing in op.path for op in ops)


class Faults:
    """The faults that are planned, and the count of those that took effect and of all outcomes.

    :ivar counts: :class:`Fault` or :class:`Outcome` -> how often.
    """

    def __init__(self) -> None:
        self.counts: Counter[Fault | Outcome] = Counter()
        self._planned: list[Planned] = []

    def plan(self, planned: Planned) -> None:
        """Let the next fitting transaction meet a fault."""
        self._planned.append(planned)

    def meet(self, client: str, ops: tuple[Op, ...]) -> Planned | None:
        """Return the fault that this transaction meets, and count it; each is met once."""
        if not self._planned:
            return None
        for planned in self._planned:
            if planned.fits(client, ops):
                self._planned.remove(planned)
                self.counts[planned.fault] += 1
                return planned
        return None

    def count(self, what: Fault | Outcome) -> None:
        """Count a fault or an outcome."""
        self.counts[what] += 1
