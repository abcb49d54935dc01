"""Working directories on a disk whose files the collector looks at, and a store that fails at a chosen call."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from airflow_provider_ha.checkpoints.areas.layered.garbage import GarbageSearch, note_needs, remove
from airflow_provider_ha.checkpoints.areas.layered.layered_work_area import LayeredWorkArea
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import progress
from airflow_provider_ha.checkpoints.verify.verification import verify
from airflow_provider_ha.storage.local_store import LocalStore
from airflow_provider_ha.storage.object_store import ObjectStore
from tests.support.checkpoints.executed import JOB, execute, take_over
from tests.support.spark.recorded_job import QUERY


FIRST, SECOND, THIRD = (JOB.working_directory(epoch, "x") for epoch in (1, 2, 3))
KEPT = 2
DAY = 24 * 3600.0


class World:
    """Working directories of a job on a disk.

    :ivar cuts: What is retained.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files = LocalStore(root, new=True)
        self.area = LayeredWorkArea(self.files)
        self.cuts: dict[str, dict[str, set[int]]] = {}
        self.current = FIRST

    def execute(self, last: int) -> None:
        """Execute batches in the current directory."""
        execute(self.area, self._write, self.current, last)

    def _write(self, key: str, data: bytes) -> None:
        """Write without waiting for the disk."""
        path = self.root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def take_over(self, target: str) -> None:
        """Go on in another directory, and have the one before be over when nothing is retained in it."""
        take_over(self.area, self.current, target)
        self.current = target

    def restore(self, source: str, batch: int, target: str) -> None:
        """Go on from a retained cut."""
        self.area.fence(self.current)
        self.area.create(target)
        self.area.fork(f"{source}/{QUERY}", f"{target}/{QUERY}", batch=batch, keep_planned=False)
        self.current = target

    def remove_others(self) -> None:
        """Say that every directory is over that is neither current nor retained."""
        for name in self.area.list(JOB.live):
            key = f"{JOB.live}{name}"
            if key != self.current and not self.cuts.get(key):
                self.area.remove(key)

    def pass_time(self, seconds: float = 2 * DAY) -> None:
        """Let every file be older."""
        for path in self.root.rglob("*"):
            if path.is_file():
                at = path.stat().st_mtime - seconds
                os.utime(path, (at, at))

    def search(self, files: Any = None) -> GarbageSearch:
        """Search all of it."""
        store = files or self.files
        found = GarbageSearch(store, JOB.live, self.cuts, self.current, int(time.time() * 1000), kept=KEPT)
        for _ in found.steps():
            pass
        return found

    def collect(self, files: Any = None, prove: Callable[[], None] = lambda: None) -> list[str]:
        """Search, note what is needed, and remove; return the keys that went."""
        store = files or self.files
        found = self.search(store)
        note_needs(store, found.known, prove)
        return [item.key for item in remove(store, found.garbage, prove)]

    def check(self) -> None:
        """Assert that all that may be needed is whole."""
        here = self.area.tree(self.current) / QUERY
        assert verify(here).startable, verify(here)
        for key, queries in self.cuts.items():
            for batch in queries.get(QUERY, ()):
                target = f"{key}-check-{batch}"
                self.area.create(target)
                self.area.fork(f"{key}/{QUERY}", f"{target}/{QUERY}", batch=batch, keep_planned=False)
                made = self.area.tree(target) / QUERY
                assert (progress(made).committed, verify(made).startable) == (batch, True)
                for path in sorted((self.root / target).rglob("*"), reverse=True):
                    path.unlink() if path.is_file() else path.rmdir()
                (self.root / target).rmdir()


class KilledError(BaseException):
    """The process ends here."""


class Failing:
    """A store that ends the process, or fails, at one of its calls.

    :param files: What it hands on to.
    :param at: Number of the call, from 0.
    :param error: What is raised; a call that writes or removes may have happened before.
    :ivar calls: Their names and keys, in order.
    """

    def __init__(self, files: ObjectStore, at: int = -1, error: BaseException | None = None) -> None:
        self._files = files
        self._at = at
        self._error = error or KilledError()
        self.calls: list[tuple[str, str]] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._files, name)

        def call(of: Any, *args: Any, **more: Any) -> Any:
            self._call(name, getattr(of, "key", of))
            return found(of, *args, **more)

        return call if callable(found) else found

    def _call(self, name: str, key: str) -> None:
        self.calls.append((name, key))
        if len(self.calls) - 1 == self._at:
            raise self._error
