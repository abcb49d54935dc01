"""The servers as one session sees them: what :class:`FakeEnsemble` offers to the connections of its clients."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from airflow_provider_ha.coordination.coordinator import Op, SessionCredentials
from tests.support.fake.clock import VirtualClock
from tests.support.fake.faults import Faults
from tests.support.fake.members import Member, SessionTracker
from tests.support.fake.tree import Tree
from tests.support.fake.turns import Turns


T = TypeVar("T")


class Servers(Protocol):
    """An ensemble without its clients. Its methods are documented where they are implemented."""

    clock: VirtualClock
    random: random.Random
    faults: Faults
    members: list[Member]
    sessions: SessionTracker
    sync_limit: int
    turns: Turns
    zxid: int

    def new_session(self, timeout: int) -> SessionCredentials:
        """Open a session with the leader."""

    def end_session(self, session_id: int) -> None:
        """Remove a session with its ephemeral nodes."""

    def read(self, member: Member, look: Callable[[Tree], T]) -> T:
        """Read what a member has."""

    def refresh(self, member: Member) -> None:
        """Show a member's clients what the leader has, unless it cannot know."""

    def apply(self, ops: Sequence[Op], *, session_id: int, client: str) -> list[int]:
        """Order and apply a transaction."""

    def at(self, milliseconds: int, action: Callable[[], None]) -> None:
        """Run something at a time of the virtual clock."""

    def calling_back(self) -> bool:
        """Whether a watch or a listener is being called just now."""

    def call_back(self, callbacks: Sequence[Callable[[], None]]) -> None:
        """Call watches and listeners."""
