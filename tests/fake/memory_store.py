"""An object store in memory, for thousands of short schedules: what is tested on them is ZooKeeper's side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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

    def read_range(self, item: ObjectInfo, offset: int, length: int) -> bytes:
        return self.read(item.key)[offset : offset + length]

    def create(self, key: str, data: bytes, *, writer: str = "") -> None:  # every answer arrives
        if key in self.objects:
            raise ObjectExistsError(f"object {key!r} exists already")
        self.write(key, data)

    def write(self, key: str, data: bytes) -> None:
        self.objects[key] = (data, self._clock.now())

    def upload(self, key: str, source: Path) -> None:
        self.write(key, source.read_bytes())

    def download(self, key: str, target: Path) -> None:
        target.write_bytes(self.read(key))

    def info(self, key: str) -> ObjectInfo | None:
        found = self.objects.get(key)
        return None if found is None else ObjectInfo(key, len(found[0]), found[1])

    def list(self, prefix: str, *, markers: bool = False) -> Iterator[ObjectInfo]:  # has none
        for key in sorted(self.objects):
            if key.startswith(prefix) and (found := self.info(key)) is not None:
                yield found

    def prepared(self, prefix: str) -> Iterator[ObjectInfo]:  # every object is complete
        return iter(())

    def names(self, prefix: str) -> Sequence[str]:
        return sorted({item.key.removeprefix(prefix).partition("/")[0] for item in self.list(prefix)})

    def delete(self, key: str) -> None:
        self.objects.pop(key, None)

    def touch(self, key: str) -> None:
        self.write(key, self.read(key))

    def check_writable(self) -> None:
        return
