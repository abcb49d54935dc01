"""One state store of a partition: its directory, its names, and the files that a version is made of.

Invariant: the names are read once. A file that Spark purges afterwards is missing when its size is read, never half
seen.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeVar

from airflow_provider_ha.checkpoints.trees import files
from airflow_provider_ha.checkpoints.trees.tree import OpenFile, Tree


T = TypeVar("T")


class Kind(str, Enum):
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
    :param size: Bytes.
    """

    path: str
    size: int
    kind: Kind


# Finds the files of one way to load a version; raises CheckpointCorruptError when they are not all there.
Chain = Callable[[], list[StateFile]]


@dataclass(frozen=True, slots=True)
class Store:
    """One store.

    :param directory: The checkpoint.
    :param place: Path of the store, relative to the checkpoint: ``state/0/1`` or ``state/0/1/left-keyToNumValues``.
    :param names: Names in it.
    """

    directory: Tree
    place: str
    names: frozenset[str]
    _files: dict[str, StateFile] = field(default_factory=dict, compare=False, repr=False)
    _memory: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def open(cls, directory: Tree, place: str) -> Store:
        """Read the names of the store at *place*; a missing store has no names."""
        return cls(directory, place, frozenset(files.names(directory, place)))

    def path(self, name: str) -> str:
        """Return the path of a file of this store, relative to the checkpoint."""
        return f"{self.place}/{name}"

    def file(self, name: str, kind: Kind) -> StateFile:
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

    def _look_at(self, name: str, kind: Kind) -> StateFile:
        path = self.path(name)
        return StateFile(path, files.size(self.directory, path), kind)


def _runs(names: frozenset[str], suffix: str) -> dict[int, int]:
    """Return, for each version that has a file, the first version of the unbroken run that it belongs to."""
    stems = (name[: -len(suffix)] for name in names if name.endswith(suffix))
    begins: dict[int, int] = {}
    for version in sorted(int(stem) for stem in stems if stem.isascii() and stem.isdigit()):
        begins[version] = begins.get(version - 1, version)
    return begins
