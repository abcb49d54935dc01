"""An object store in memory, for thousands of short schedules: what is tested on them is ZooKeeper's side."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from airflow_provider_ha.clock import Clock
from airflow_provider_ha.errors import ObjectExistsError, ObjectMissingError
from airflow_provider_ha.storage.object_store import ObjectInfo, ObjectStore


class MemoryStore(ObjectStore):
    """Objects in a dictionary."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.objects: dict[str, tuple[bytes, datetime]] = {}

    @property
    def uri(self) -> str:
        return "memory:"

    def read(self, key: str) -> bytes:
        try:
            return self.objects[key][0]
        except KeyError:
            raise ObjectMissingError(f"object {key!r} is not there") from None

    def create(self, key: str, data: bytes) -> None:
        if key in self.objects:
            raise ObjectExistsError(f"object {key!r} exists already")
        self.write(key, data)

    def write(self, key: str, data: bytes) -> None:
        self.objects[key] = (data, self._clock.now())

    def upload(self, key: str, source: Path) -> None:
        self.write(key, source.read_bytes())

    def download(self, key: str, target: Path) -> None:
        target.write_bytes(self.read(key))

    def copy(self, source: str, target: str, *, if_absent: bool = False) -> ObjectInfo:
        data = self.read(source)
        if if_absent:
            self.create(target, data)
        else:
            self.write(target, data)
        return ObjectInfo(target, len(data), self.objects[target][1])

    def info(self, key: str) -> ObjectInfo | None:
        found = self.objects.get(key)
        return None if found is None else ObjectInfo(key, len(found[0]), found[1])

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        for key in sorted(self.objects):
            if key.startswith(prefix) and (found := self.info(key)) is not None:
                yield found

    def delete(self, key: str) -> None:
        self.objects.pop(key, None)

    def touch(self, key: str) -> None:
        self.write(key, self.read(key))

    def check_writable(self) -> None:
        return
