"""The watches of one session: each fires once, and all of them fire when the connection is gone, for they are gone too.

Like kazoo's, they are sets: arming an equal callback again does not pile up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.support.fake.tree import Event, parent_of


Callback = Callable[[], None]


@dataclass(frozen=True)
class NodeWatch:
    """Calls back with the path of the node that it watches; equal for equal paths, as the real one is."""

    callback: Callable[[str], None]
    path: str

    def __call__(self) -> None:
        """Say that the node may have changed."""
        self.callback(self.path)


class Watches:
    """What one session wants to hear of.

    :param call: Calls callbacks: at once, or later when the process does not run.
    """

    def __init__(self, call: Callable[[list[Callback]], None]) -> None:
        self._call = call
        self._data: dict[str, dict[Callback, None]] = {}
        self._children: dict[str, dict[Callback, None]] = {}

    def on_data(self, path: str, callback: Callback) -> None:
        """Hear of the node's creation, change or removal."""
        self._data.setdefault(path, {})[callback] = None

    def on_children(self, path: str, callback: Callback) -> None:
        """Hear of a child that comes or goes, or of the node's removal."""
        self._children.setdefault(path, {})[callback] = None

    def tell(self, events: Sequence[Event]) -> None:
        """Fire what the events are about."""
        if not self._data and not self._children:
            return
        fired: list[Callback] = []
        for event in events:
            fired += self._data.pop(event.path, ())
            if event.kind == "deleted":
                fired += self._children.pop(event.path, ())
            if event.kind != "changed":
                fired += self._children.pop(parent_of(event.path), ())
        if fired:
            self._call(fired)

    def drop(self) -> None:
        """Fire all: the server has forgotten them."""
        fired = [callback for found in (*self._data.values(), *self._children.values()) for callback in found]
        self._data.clear()
        self._children.clear()
        if fired:
            self._call(fired)
