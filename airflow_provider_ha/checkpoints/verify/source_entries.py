"""Entries of file sources' logs, each read once and compared with the others where no checksum protects it.

Invariant: a compact entry repeats the content of the entries before it. A path with a flipped bit names another file,
and Spark reads the original again without an error. Where Hadoop wrote no checksum file (S3A writes none, nor did
releases before 3.2), the remaining entries reveal the damage.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from airflow_provider_ha.checkpoints.format.compactible_log import COMPACT, CompactibleLog, check_hidden_sum
from airflow_provider_ha.checkpoints.trees.tree import Tree
from airflow_provider_ha.errors import CheckpointCorruptError


_SUM = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class _Said:
    """Content of an entry as sums of hashes: independent of order, in constant memory.

    :param previous: The previous existing compact entry; -1 for none.
    :param whole: The sum of all its lines.
    :param before: The sum of the lines up to *previous*.
    :param each: Log offset -> the sum of its lines, for lines after *previous*.
    """

    previous: int
    whole: int
    before: int
    each: dict[int, int]


class SourceEntries:
    """Checker of source log entries with a cache of its results: many batches need the same entry."""

    def __init__(self) -> None:
        self._said: dict[str, _Said | CheckpointCorruptError] = {}
        self._damage: dict[str, CheckpointCorruptError | None] = {}

    def damage(self, directory: Tree, log: CompactibleLog, entry: int) -> CheckpointCorruptError | None:
        """Return the problem with an existing entry.

        :raises StorageUnavailableError: It could not be read.
        """
        path = log.path(entry)
        if path not in self._damage:
            self._damage[path] = self._look(directory, log, entry)
        return self._damage[path]

    def _look(self, directory: Tree, log: CompactibleLog, entry: int) -> CheckpointCorruptError | None:
        said = self._read(log, entry)
        if isinstance(said, CheckpointCorruptError):
            return said
        path = log.path(entry)
        try:
            if not check_hidden_sum(directory, path) and path.endswith(COMPACT):
                self._compare(log, entry, said)
        except CheckpointCorruptError as error:
            return error
        return None

    def _compare(self, log: CompactibleLog, entry: int, said: _Said) -> None:
        for other in (number for number in log.entries if said.previous <= number < entry):
            found = self._read(log, other)
            repeated = said.before if other == said.previous else said.each.get(other)
            if isinstance(found, _Said) and found.whole != repeated:
                raise CheckpointCorruptError(log.path(entry), f"it does not repeat the content of {log.path(other)}")

    def _read(self, log: CompactibleLog, entry: int) -> _Said | CheckpointCorruptError:
        path = log.path(entry)
        if path not in self._said:
            try:
                self._said[path] = _read(log, entry)
            except CheckpointCorruptError as error:
                self._said[path] = error
        return self._said[path]


def _read(log: CompactibleLog, entry: int) -> _Said:
    path = log.path(entry)
    compact = path.endswith(COMPACT)
    previous = log.newest_compact(entry - 1) if compact else -1
    numbers: set[int] = set()
    whole, before = 0, 0
    each: dict[int, int] = {}
    for line in log.lines(entry):
        value = json.loads(line)
        number = value.get("batchId", entry)
        if not isinstance(number, int):
            raise CheckpointCorruptError(path, "it has a line whose batchId is not a number")
        numbers.add(number)
        hashed = hash((str(value.get("path")), str(value.get("timestamp")), number))
        whole = (whole + hashed) & _SUM
        if compact and number > previous:
            each[number] = (each.get(number, 0) + hashed) & _SUM
        else:
            before = (before + hashed) & _SUM
    wanted = set(range(entry + 1)) if compact else {entry}
    if not wanted <= numbers:
        # Every entry has new files: Spark writes no empty entry. A compact one repeats all before it.
        raise CheckpointCorruptError(path, f"it names no file of log offset {min(wanted - numbers)}: it is truncated")
    return _Said(previous, whole, before, each)
