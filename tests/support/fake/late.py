"""A transaction on its way: it arrives later than it was sent, perhaps when its sender no longer waits for it."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_ha.coordination.coordinator import Op
from airflow_provider_ha.errors import CoordinationError


@dataclass
class LateRequest:
    """A transaction that arrives later than it was sent.

    :param session_id: Session in which it was sent.
    :param awaited: Whether its sender still waits for the answer.
    :param due: Whether it has been under way for as long as it was to be.
    """

    ops: tuple[Op, ...]
    session_id: int
    awaited: bool = True
    due: bool = False
    done: bool = False
    versions: list[int] | None = None
    error: CoordinationError | None = None

    def answer(self) -> list[int]:
        """Return the versions, or raise why it was rejected."""
        if self.error is not None:
            raise self.error
        return self.versions or []
