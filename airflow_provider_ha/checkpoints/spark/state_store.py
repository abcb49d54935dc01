"""One state store of a partition: its names and files, and the versions of the HDFS-backed provider.

Invariant: the names are read once. A file that Spark purges afterwards is missing when its size is read, never half
seen.

Invariant: a version is whole only with its newest snapshot (none is the empty one before version 1) and every delta
after it.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any, TypeVar

from airflow_provider_ha.checkpoints.spark import files
from airflow_provider_ha.checkpoints.spark.files import FileGoneError
from airflow_provider_ha.checkpoints.spark.tree import OpenFile, Tree


T = TypeVar("T")


class StateFileKind(str, Enum):
    """Kind of a state file."""

    DELTA = "delta"
    SNAPSHOT = "snapshot"
    ZIP = "zip"
    CHANGELOG = "changelog"
    SST = "sst"
    LOG = "log"


@dataclass(frozen=True, slots=True)
class StateFile:
    """One file of the state.

    :param path: Relative to the checkpoint.
    """

    path: str
    size: int
    kind: StateFileKind


# Finds the files of one way to load a version; raises CheckpointCorruptError when they are not all there.
Chain = Callable[[], list[StateFile]]


@dataclass(frozen=True, slots=True)
class StateStore:
    """One store.

    :param place: Path of the store, relative to the checkpoint: ``state/0/1`` or ``state/0/1/left-keyToNumValues``.
    """

    directory: Tree
    place: str
    names: frozenset[str]
    _files: dict[str, StateFile] = field(default_factory=dict, compare=False, repr=False)
    _memory: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def open(cls, directory: Tree, place: str) -> StateStore:
        """Read the names of the store at *place*; a missing store has no names."""
        return cls(directory, place, frozenset(files.names(directory, place)))

    def path(self, name: str) -> str:
        """Return the path of a file of this store, relative to the checkpoint."""
        return f"{self.place}/{name}"

    def file(self, name: str, kind: StateFileKind) -> StateFile:
        """Return a file of this store; raises as :func:`files.size` does.

        The size of an existing file is read once: a snapshot belongs to the chains of many versions.
        """
        found = self._files.get(name)
        if found is None:
            found = self._files[name] = self._look_at(name, kind)
        return found

    def opened(self, name: str) -> AbstractContextManager[OpenFile]:
        """Open a file of this store for a ``with``; raises as :func:`files.opened` does."""
        return files.opened(self.directory, self.path(name))

    def unbroken_from(self, suffix: str, version: int) -> int:
        """Return the lowest version from which on each up to *version* has its file ``<version>.<suffix>``.

        :return: *version* + 1 when not even that one has.
        """
        runs = self.remember(f"runs {suffix}", lambda: _runs(self.names, f".{suffix}"))
        return runs.get(version, version + 1)

    def remember(self, key: str, make: Callable[[], T]) -> T:
        """Return what *make* returned the first time: one zip is named by many versions."""
        if key not in self._memory:
            self._memory[key] = make()
        value: T = self._memory[key]
        return value

    def _look_at(self, name: str, kind: StateFileKind) -> StateFile:
        path = self.path(name)
        return StateFile(path, files.size(self.directory, path), kind)


def _runs(names: frozenset[str], suffix: str) -> dict[int, int]:
    """Return, for each version that has a file, the first version of the unbroken run that it belongs to."""
    stems = (name[: -len(suffix)] for name in names if name.endswith(suffix))
    begins: dict[int, int] = {}
    for version in sorted(int(stem) for stem in stems if stem.isascii() and stem.isdigit()):
        begins[version] = begins.get(version - 1, version)
    return begins


_NAME = re.compile(r"(\d+)\.(delta|snapshot)")


def hdfs_chains(store: StateStore, version: int) -> list[Chain]:
    """Return the sets of files that *version* can be loaded from, in Spark's order.

    :raises FileGoneError: A delta is missing, without a snapshot in its place.
    """
    first = store.unbroken_from("delta", version)
    snapshots = store.remember("snapshots", lambda: _snapshots(store))
    based = snapshots[bisect_left(snapshots, first - 1) : bisect_right(snapshots, version)]
    found: list[Chain] = [partial(_files, store, base, version) for base in reversed(based)]
    if first == 1:
        found.append(partial(_files, store, 0, version))
    if not found:
        missing = store.path(f"{first - 1}.delta")
        raise FileGoneError(missing, f"state version {version} needs it, and it is not there")
    return found


def _snapshots(store: StateStore) -> list[int]:
    found = (name for name in store.names if name.endswith(".snapshot"))
    return sorted(int(match[1]) for name in found if (match := _NAME.fullmatch(name)))


def _files(store: StateStore, base: int, version: int) -> list[StateFile]:
    snapshot = [store.file(f"{base}.snapshot", StateFileKind.SNAPSHOT)] if base else []
    return snapshot + [store.file(f"{step}.delta", StateFileKind.DELTA) for step in range(base + 1, version + 1)]
