"""What processes write down about themselves while they are killed and cut off, for the checker that reads it later.

A file per process, a line per event, forced to the disk before the process goes on: what it did after its last line, it
never did for the checker. Times are boot-time seconds, one clock for all processes of a host.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from airflow_provider_ha.clock import SystemClock


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened.

    :param at: Boot-time seconds.
    :param actor: Who wrote it down: one name per process.
    :param kind: What happened; ``tests.support.leadership.checker`` lists the kinds.
    """

    at: float
    actor: str
    kind: str
    facts: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        return self.facts[name]


class History:
    """The history of one process. Safe to use from several threads.

    :param folder: Where the files of all processes lie.
    :param actor: Name of this process, used once.
    """

    def __init__(self, folder: Path, actor: str) -> None:
        self._actor = actor
        self._clock = SystemClock()
        self._lock = threading.Lock()
        self._descriptor = os.open(folder / f"{actor}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)

    def note(self, kind: str, **facts: Any) -> None:
        """Write one event down, and wait until it is on the disk."""
        with self._lock:
            event = {"at": self._clock.lease_time(), "actor": self._actor, "kind": kind, "facts": facts}
            os.write(self._descriptor, json.dumps(event).encode() + b"\n")
            os.fsync(self._descriptor)

    def close(self) -> None:
        """Give the file back."""
        os.close(self._descriptor)


def read(folder: Path) -> list[Event]:
    """Return all events of all processes in the order of their times.

    The last line of a process that was killed may be half a line: it did not happen.
    """
    events = [event for path in folder.glob("*.jsonl") for event in _events(path)]
    return sorted(events, key=lambda event: event.at)


def _events(path: Path) -> Iterator[Event]:
    for line in path.read_bytes().splitlines(keepends=True):
        if line.endswith(b"\n"):
            yield Event(**json.loads(line))
