"""The nodes that the triggers of one session wait for: each is read once, and again when it may have changed.

Invariants:

- An answer is kept only while the watch that was set with it has not fired, so it is what a read would return now, but
  for the time that an event takes to arrive. A connection that is lost fires every watch.
- A watch that is lost without a sound is found by :meth:`WatchedNodes.compare`, which reads without watching.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence

from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.node import Node
from airflow_provider_ha.coordination.reads import Reads


Nodes = Mapping[str, Node | None]


class WatchedNodes:
    """What a session has read and watches. Used from threads.

    :param coordinator: The session.
    :param wake: Called with the path of a node that may have changed, from the session's thread.
    """

    def __init__(self, coordinator: Coordinator, wake: Callable[[str], None]) -> None:
        self._coordinator = coordinator
        self._wake = wake
        self._lock = threading.Lock()
        self._armed: set[str] = set()
        self._kept: dict[str, Node | None] = {}

    def read(self, paths: Iterable[str], absent: Iterable[str] = ()) -> Nodes:
        """Return the nodes, ``None`` for one that does not exist; what is new is watched first. For one thread.

        :param absent: Those that are likely not to exist.
        :raises NotConnectedError: They could not be read.
        """
        with self._lock:
            found = {path: self._kept[path] for path in paths if path in self._kept}
            new = [path for path in dict.fromkeys(paths) if path not in found]
            self._armed.update(new)
        try:
            read = self._coordinator.read(Reads(tuple(new), absent=frozenset(absent)), watch=self._fired).nodes
        except BaseException:
            with self._lock:
                self._armed.difference_update(new)
            raise
        with self._lock:
            self._kept.update({path: node for path, node in read.items() if path in self._armed})
        return found | dict(read)

    def kept(self, paths: Iterable[str]) -> Nodes:
        """Return those of the nodes that are watched, as they are; reads nothing."""
        with self._lock:
            return {path: self._kept[path] for path in paths if path in self._kept}

    def compare(self, paths: Sequence[str]) -> None:
        """Read nodes again and wake those that wait for one that has changed without an event.

        :raises NotConnectedError: They could not be read.
        """
        with self._lock:
            before = {path: self._kept[path] for path in paths if path in self._kept}
        now = self._coordinator.read(Reads(tuple(before))).nodes
        for path, node in before.items():
            if _mark(node) != _mark(now[path]):
                self._fired(path)

    def forget(self, unwanted: Callable[[str], bool]) -> None:
        """Drop the answers that are waited for no longer; their watches stay until they fire."""
        with self._lock:
            self._kept = {path: node for path, node in self._kept.items() if not unwanted(path)}

    def _fired(self, path: str) -> None:
        with self._lock:
            self._armed.discard(path)
            self._kept.pop(path, None)
        self._wake(path)


def _mark(node: Node | None) -> int | None:
    """Return what changes with each change of a node, also when it was removed and made again."""
    return None if node is None else node.modified_zxid
