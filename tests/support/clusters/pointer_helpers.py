"""What tests of pointers share: a small kind of pointer, a job that is led, and sessions and stores that misbehave."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, ClassVar

from airflow_provider_ha.checkpoints.areas.linked_work_area import LinkedWorkArea
from airflow_provider_ha.checkpoints.store.pointer_scan import ScannedPointer
from airflow_provider_ha.checkpoints.store.pointer_store import PayloadHandle, Payloads, PointerStore
from airflow_provider_ha.checkpoints.store.removal import DeletionList, Remover
from airflow_provider_ha.clock import Clock, SystemClock
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator, Node, Op, ReadResponse, Reads, SetData
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.errors import StorageUnavailableError
from airflow_provider_ha.records import Record
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.object_store import ObjectStore
from tests.support.clusters.coordination_helpers import ignore, job_paths, lead


class Note(Record):
    """A pointer to a payload."""

    kind: ClassVar[str] = "note"

    key: str
    sha256: str


@contextmanager
def leading(config: HaConfig, coordinator: Coordinator, *, clock: Clock | None) -> Iterator[Leadership]:
    """Lead the job; with the clock of a fake ensemble, or for real."""
    paths = job_paths(config)
    coordinator.ensure(*paths.skeleton)
    with lead(config, coordinator, clock=clock or SystemClock(), timeout=10.0 if clock is None else 0) as leadership:
        if clock is None:
            leadership.start_heartbeats(ignore)
        yield leadership


@dataclass
class Wall:
    """A wall clock that a test moves by hand."""

    time: datetime = field(default_factory=lambda: datetime(2026, 1, 1, tzinfo=timezone.utc))

    def lease_time(self) -> float:
        return self.time.timestamp()

    def now(self) -> datetime:
        return self.time

    def pass_by(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


@dataclass
class Pointers:
    """The pointers of a job below its checkpoints, and everything around them."""

    coordinator: Coordinator
    leadership: Leadership
    objects: ObjectStore
    paths: JobPaths
    work_path: Path
    clock: Wall = field(default_factory=Wall)

    @property
    def keys(self) -> JobKeys:
        return JobKeys(self.paths.job_id)

    @property
    def to_delete(self) -> DeletionList:
        return DeletionList(self.coordinator, self.paths, clock=self.clock)

    def store(self, coordinator: Any = None, objects: Any = None) -> PointerStore[Note]:
        """Return the store, optionally over a session or storage that misbehaves."""
        coordinator = coordinator or self.coordinator
        payloads: Payloads[Note] = Payloads(objects or self.objects, lambda note: PayloadHandle(note.key, note.sha256))
        return PointerStore(
            coordinator,
            self.paths.checkpoints,
            Note,
            payloads=payloads,
            to_delete=DeletionList(coordinator, self.paths, clock=self.clock),
        )

    def remover(self, coordinator: Any = None, objects: Any = None) -> Remover:
        return Remover(
            coordinator or self.coordinator,
            self.paths.cluster,
            LinkedWorkArea(self.work_path),
            objects=objects or self.objects,
            clock=self.clock,
        )

    def note(self, data: bytes, key: str = "a") -> Note:
        return Note(key=f"{self.keys.payloads}{key}.json", sha256=hashlib.sha256(data).hexdigest())

    def add(self, name: str, data: bytes | None = None) -> Note:
        """Add a pointer of that name, with a payload under the same name."""
        payload = data or name.encode()
        note = self.note(payload, name)
        self.store().add(self.leadership.commit, name, note, payload)
        return note

    def found(self, name: str) -> ScannedPointer[Note]:
        found = self.store().find(name)
        assert found is not None
        return found

    def names(self) -> list[str]:
        return self.coordinator.children(self.paths.checkpoints)

    def payloads(self) -> list[str]:
        return [info.key.removeprefix(self.keys.payloads) for info in self.objects.list(self.keys.payloads)]

    def entries(self) -> list[str]:
        return self.coordinator.children(self.paths.cluster.to_delete)

    def pin(self, name: str = "pin") -> Path:
        """Make the directory of a pin, with a file in it."""
        path = self.work_path / self.pin_key(name)
        path.mkdir(parents=True)
        (path / "file").write_text("x")
        return path

    def pin_key(self, name: str = "pin") -> str:
        return f"{self.keys.base}/checkpoints/pins/{name}"

    def mark(self, name: str, *, what: str = "checkpoint-1", pin: str = "pin") -> str:
        """Mark a pointer, its payload and a pin for deletion; returns the entry."""
        note = self.found(name).record
        entry = self.store().mark(
            self.leadership.commit, name, what, objects=(note.key,), directories=(self.pin_key(pin),)
        )
        assert entry is not None
        return entry

    def depose(self) -> None:
        """Let another process take the job; the old leader's session lives on."""
        epoch = self.coordinator.get(self.paths.epoch)
        self.coordinator.commit(SetData(self.paths.epoch, b"another leader", epoch.version))


class Raising:
    """A commit that raises, once, after it was applied or instead."""

    def __init__(self, commit: Callable[..., list[int]], error: Exception, *, applied: bool) -> None:
        self._commit = commit
        self._error: Exception | None = error
        self._applied = applied

    def __call__(self, *ops: Op) -> list[int]:
        error, self._error = self._error, None
        versions = self._commit(*ops) if self._applied or error is None else []
        if error is not None:
            raise error
        return versions


class Before:
    """A session that lets something happen just before it reads a node, each time until nothing is left to happen."""

    def __init__(self, inner: Coordinator, *events: Callable[[], object], reading: str = "") -> None:
        self._inner = inner
        self._events = list(events)
        self._reading = reading

    def find(self, path: str, **options: Any) -> Node | None:
        self._happen(path)
        return self._inner.find(path, **options)

    def read(self, reads: Reads, **options: Any) -> ReadResponse:
        self._happen(*reads.nodes)
        return self._inner.read(reads, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def _happen(self, *paths: str) -> None:
        if self._events and any(self._reading in path for path in paths):
            self._events.pop(0)()


class Failing:
    """A store of which some calls fail, a number of times."""

    def __init__(self, inner: ObjectStore, call: str, times: int = 1) -> None:
        self._inner = inner
        self._call = call
        self.times = times

    def __getattr__(self, name: str) -> Any:
        if name == self._call and self.times > 0:
            return self._fail
        return getattr(self._inner, name)

    def _fail(self, *_: object) -> Iterator[object]:
        self.times -= 1
        raise StorageUnavailableError("the disk is away")
