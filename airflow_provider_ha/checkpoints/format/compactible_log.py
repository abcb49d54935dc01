"""Logs of files that Spark compacts: the file source's (``sources/<i>``) and the file sink's (``_spark_metadata``).

Invariant: entry k is named ``k`` or, where (k + 1) is a multiple of the interval, ``k.compact``; a compact entry
repeats everything before it. To know all files up to k one needs the newest compact entry <= k and every one after it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from airflow_provider_ha.checkpoints.format import crc
from airflow_provider_ha.checkpoints.trees.files import FileGoneError, exists, names, read, read_text
from airflow_provider_ha.checkpoints.trees.tree import Tree
from airflow_provider_ha.errors import CheckpointCorruptError


COMPACT = ".compact"


class CompactibleLog:
    """One compactible log.

    :param directory: The checkpoint (or any directory that contains the log).
    :param log: Path of the log, relative to *directory*; empty for *directory* itself.
    """

    def __init__(self, directory: Tree, log: str = "") -> None:
        self._directory = directory
        self._log = f"{log}/" if log else ""
        self._names = entry_names(names(directory / log if log else directory))

    @property
    def entries(self) -> dict[int, str]:
        """Entry -> name, ascending."""
        return dict(self._names)

    def last(self) -> int:
        """Return the highest entry; -1 without one."""
        return max(self._names, default=-1)

    def newest_compact(self, upto: int) -> int:
        """Return the newest compact entry up to *upto*; -1 without one."""
        return max((k for k, name in self._names.items() if name.endswith(COMPACT) and k <= upto), default=-1)

    def path(self, entry: int) -> str:
        """Return the path of an entry, relative to the directory.

        :raises FileGoneError: It is not there.
        """
        if entry not in self._names:
            later = next((name for k, name in self._names.items() if k > entry and name.endswith(COMPACT)), None)
            merged = f"; {later} repeats it, and serves once the batch that wrote {later} is committed" if later else ""
            raise FileGoneError(f"{self._log}{entry}", f"it is needed and not there{merged}")
        return f"{self._log}{self._names[entry]}"

    def closure(self, entry: int) -> list[str]:
        """Return the paths that define every file up to *entry*, ascending.

        :raises FileGoneError: A path is missing.
        """
        return [self.path(k) for k in range(max(self.newest_compact(entry), 0), entry + 1)]

    def lines(self, entry: int) -> list[str]:
        """Return the lines of an entry without its version line.

        :raises CheckpointCorruptError: It is incomplete or holds something else than JSON objects.
        """
        return parse_lines(self.path(entry), read_text(self._directory, self.path(entry)))


def check_hidden_sum(directory: Tree, path: str) -> bool:
    """Compare an entry of a log with the checksum that Hadoop wrote next to it; returns whether there is one.

    Spark never does: an offset or a path that lost a bit is another one, silently.

    :raises CheckpointCorruptError: The entry was changed after Spark wrote it.
    """
    folder, slash, name = path.rpartition("/")
    hidden = f"{folder}{slash}.{name}.crc"
    if not exists(directory, hidden):
        return False
    if crc.was_changed(read(directory, path), read(directory, hidden)):
        raise CheckpointCorruptError(path, "it was changed after Spark wrote it: its hidden checksum does not fit")
    return True


def entry_names(found: Iterable[str]) -> dict[int, str]:
    """Return the names of the entries that Spark would read among *found*; a compact entry wins over a plain one."""
    entries: dict[int, str] = {}
    for name in sorted(found):
        stem = name.removesuffix(COMPACT)
        if stem.isascii() and stem.isdigit():
            entries[int(stem)] = name
    return dict(sorted(entries.items()))


def parse_lines(path: str, text: str) -> list[str]:
    """Return the lines of an entry's *text* without its version line.

    :raises CheckpointCorruptError: It is incomplete or holds something else than JSON objects.
    """
    first, *lines = text.split("\n")
    if first != "v1":
        raise CheckpointCorruptError(path, "incomplete log file: it does not begin with v1")
    kept = [line for line in lines if line]
    for line in kept:
        _object(path, line)
    return kept


def _object(path: str, line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError:
        raise CheckpointCorruptError(path, "it holds a line that is not JSON: it is cut or garbled") from None
    if not isinstance(value, dict):
        raise CheckpointCorruptError(path, "it holds a line that is not a JSON object")
    return value
