"""Whose turn it is: the seam between a fake session and what schedules the actors that use it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple, Protocol


class Request(NamedTuple):
    """What a session is about to send.

    :param kind: A read, a transaction, or the end of the session.
    :param paths: The nodes it is about.
    :param client: Name of the session's process.
    :param writes: What it would change: the nodes that it sets, creates or removes, and the parents of the latter.
    """

    kind: Literal["read", "commit", "close"]
    paths: tuple[str, ...]
    client: str
    writes: tuple[str, ...] = ()


class Turns(Protocol):
    """Lets others have their turn."""

    def give_way(self, request: Request) -> None:
        """Let others go first; called before each request."""

    def wait(self, milliseconds: int, ready: Callable[[], bool]) -> None:
        """Return when *ready* or after some virtual time."""


class Alone:
    """For a test without actors: no actor goes first, and a caller that waits moves the clock.

    :param advance: Moves the clock by some milliseconds, towards the next thing that is due and no further.
    """

    def __init__(self, advance: Callable[[int], int]) -> None:
        self._advance = advance

    def give_way(self, request: Request) -> None:
        """Go on at once."""
        del request

    def wait(self, milliseconds: int, ready: Callable[[], bool]) -> None:
        """Let time pass until *ready*, at most as long as given."""
        left = milliseconds
        while left > 0 and not ready():
            left -= self._advance(left)
