"""Reads of files that Spark may delete or replace at any moment, within limits of memory use.

A name is checked here, for every kind of :class:`~airflow_provider_ha.checkpoints.spark.tree.Tree`.

Invariant: a file known to be bad or missing is a ``CheckpointCorruptError`` with the file's relative path; a failed
read (permissions, a broken disk) is ``StorageUnavailableError`` and gives no information about the checkpoint (contract
6).

State is read in pieces and is not limited here.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from contextlib import AbstractContextManager
from itertools import islice
from threading import Lock

from airflow_provider_ha.checkpoints.spark.tree import OpenFile, Tree
from airflow_provider_ha.errors import CheckpointCorruptError, StorageUnavailableError


LARGEST = 256 << 20
"""Bytes of an entry of a log, of metadata, of a schema. Spark writes kilobytes."""

LARGEST_COMPACT = 1 << 30
"""Bytes of a compact entry. It names every file that a source has read or a sink has written: about 5 million here."""

NAMES = 1_000_000
"""Names in one directory, and the objects below a prefix."""

_COMPACT = ".compact"


def check_size(name: str, size: int) -> None:
    """Refuse a file larger than Spark's files of this name.

    :raises CheckpointCorruptError: It is.
    """
    limit = LARGEST_COMPACT if name.endswith(_COMPACT) else LARGEST
    if size > limit:
        raise CheckpointCorruptError(
            name, f"it has {size:,} bytes, more than the limit of {limit:,} bytes for such a file"
        )


def first_names(found: Iterable[str]) -> list[str] | None:
    """Return all names; ``None`` when there are more than :data:`NAMES`."""
    names = list(islice(found, NAMES + 1))
    return names if len(names) <= NAMES else None


class RecentBytes:
    """Name -> bytes; the least recently used ones make room. Safe in several threads."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = 0
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._lock = Lock()

    def get(self, name: str) -> bytes | None:
        """Return the cached bytes of *name*."""
        with self._lock:
            if name in self._kept:
                self._kept.move_to_end(name)
            return self._kept.get(name)

    def put(self, name: str, data: bytes) -> None:
        """Hold *data*, unless it alone is more than half of the bound."""
        if len(data) > self._limit // 2:
            return
        with self._lock:
            self._held += len(data) - len(self._kept.pop(name, b""))
            self._kept[name] = data
            while self._held > self._limit:
                self._held -= len(self._kept.popitem(last=False)[1])


_LEADING_OUT = frozenset({"", ".", ".."})
_MORE_MEMORY = "Give this process more memory, and try again"


class NotAFileError(CheckpointCorruptError):
    """A directory or link in place of a file."""


class UnreadableError(StorageUnavailableError):
    """A file or directory could not be read.

    :param path: Its path, relative to the checkpoint if known.
    """

    def __init__(
        self, path: str, error: object, *, next_step: str = "Give this user the right to read it, and try again"
    ) -> None:
        self.path = path
        super().__init__(f"cannot read {path}: {error}", next_step=next_step)


class FileGoneError(CheckpointCorruptError):
    """A file that is needed is not there: never written, lost, or purged by Spark since."""


def names(tree: Tree, place: str = "") -> list[str]:
    """Return all names in *tree*, sorted; none when it is not there or not a directory.

    :param place: Of a directory below it instead, by its path relative to it.
    :raises UnreadableError: It is there and cannot be listed.
    """
    return tree.names(place)


def crowded(place: str) -> UnreadableError:
    """Return the error of a directory that has more names than are listed."""
    return UnreadableError(
        place,
        f"it has more than {NAMES:,} entries",
        next_step="Check that it is a checkpoint of Spark, which never needs that many, and name the checkpoint itself",
    )


def exists(tree: Tree, name: str) -> bool:
    """Return whether *name* is a regular file below *tree*, not reached through a symbolic link below *tree*."""
    return tree.has(name)


def size(tree: Tree, name: str) -> int:
    """Return the size of a file in bytes.

    :raises FileGoneError: It is not there.
    :raises NotAFileError: It is not a regular file.
    """
    return tree.file_size(check_name(name))


def read(tree: Tree, name: str) -> bytes:
    """Return the bytes of a file that is held as a whole: an entry of a log, metadata, a schema.

    :raises FileGoneError: It is not there.
    :raises NotAFileError: It is not a regular file.
    :raises CheckpointCorruptError: It is larger than any such file is.
    :raises UnreadableError: It could not be read.
    """
    try:
        return tree.read(check_name(name))
    except OSError as error:
        raise UnreadableError(name, error) from error
    except MemoryError:
        raise UnreadableError(name, "it does not fit into the memory that is left", next_step=_MORE_MEMORY) from None


def opened(tree: Tree, name: str) -> AbstractContextManager[OpenFile]:
    """Open a file for as long as the block runs; raises as :func:`read` does."""
    return tree.opened(check_name(name))


def read_text(tree: Tree, name: str) -> str:
    """Return a file as UTF-8 text; raises as :func:`read` does, and ``CheckpointCorruptError`` when it is not text."""
    try:
        return read(tree, name).decode()
    except UnicodeDecodeError as error:
        raise CheckpointCorruptError(name, f"it is not UTF-8 text: {error}") from None
    except MemoryError:
        raise UnreadableError(name, "it does not fit into the memory that is left", next_step=_MORE_MEMORY) from None


def check_name(name: str) -> str:
    """Return *name* when it stays below the checkpoint: names come from files of any author.

    :raises CheckpointCorruptError: It leads out of the directory.
    """
    if "\0" in name or not _LEADING_OUT.isdisjoint(name.split("/")):
        raise CheckpointCorruptError(name, "the name leads out of the checkpoint")
    return name
