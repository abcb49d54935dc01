"""The closure of a batch: the files that Spark needs to continue after it, and no others.

Invariant: with exactly these files in an empty directory, Spark's next batch is the one after N (or exactly the planned
one again), with the state of N. Everything else is left behind: source entries above the cut would merge files into
other batches, and state above it is another timeline's (spark-facts section 1).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_ha.checkpoints.format.compactible_log import CompactibleLog
from airflow_provider_ha.checkpoints.format.layout import (
    COMMITS,
    METADATA,
    OFFSETS,
    SOURCES,
    STATE,
    batches,
    numbers,
)
from airflow_provider_ha.checkpoints.format.log_entries import LogEntries
from airflow_provider_ha.checkpoints.format.metadata_log import OffsetsEntry, read_commits, read_offsets, read_query_id
from airflow_provider_ha.checkpoints.format.state import StateReader
from airflow_provider_ha.checkpoints.trees import files
from airflow_provider_ha.checkpoints.trees.tree import Tree
from airflow_provider_ha.errors import CheckpointMissingError


_NAMES_IN_OFFSETS = (
    "A query that begins with spark.sql.streaming.offsetLog.formatVersion=2 has an offset log that names them"
)


@dataclass(frozen=True, slots=True)
class Closure:
    """Files of a fork, pin or savepoint of a batch.

    :param batch: N; -1 without a commit.
    :param files: Sizes in bytes by path relative to the checkpoint, including checksum files, in the order of the copy
        (logs first, so that later files cannot be torn).
    :param planned: N + 1 when its entry of the offset log is included: Spark executes exactly that batch again.
    """

    batch: int
    files: dict[str, int]
    planned: int | None


def closure(directory: Tree, batch: int, *, with_planned: bool, reader: StateReader | None = None) -> Closure:
    """Return the closure of *batch*.

    :param directory: The checkpoint.
    :param batch: N, a committed batch; -1 for an empty closure.
    :param with_planned: Whether an existing ``offsets/<N+1>`` belongs to it.
    :param reader: Shares reads between the calls for many batches.
    :raises CheckpointMissingError: The batch does not exist, or Spark has purged it: choose a newer one.
    :raises CheckpointCorruptError: A file is missing or bad; the first one is named.
    :raises StorageUnavailableError: A file could not be read: nothing is known about the checkpoint.
    """
    try:
        needed, planned = needed_files(directory, batch, with_planned=with_planned, reader=reader)
        found = {name: files.size(directory, name) for name in needed}
        checksums = checksum_files(directory, needed)
    except files.FileGoneError as error:
        # Spark purges the logs before the state, so the logs show whether a file was purged during this read or lost.
        if batch >= 0 and min(batches(directory.fresh(), OFFSETS), default=batch + 1) > max(batch - 1, 0):
            raise CheckpointMissingError(
                f"batch {batch} of {directory} was purged while it was read", next_step="Choose a newer batch"
            ) from error
        raise
    return Closure(batch=batch, files=found | checksums, planned=planned)


def needed_files(
    directory: Tree, batch: int, *, with_planned: bool, reader: StateReader | None = None
) -> tuple[list[str], int | None]:
    """Return the paths of a closure without its checksum files, and the planned batch; raises as :func:`closure`."""
    read_query_id(directory)
    planned = batch + 1 if with_planned and batch + 1 in batches(directory, OFFSETS) else None
    last = batch if planned is None else planned
    needed = [METADATA]
    state: list[str] = []
    if batch >= 0:
        offsets, commits = read_offsets(directory, batch), read_commits(directory, batch)
        needed += [f"{COMMITS}/{batch}", f"{OFFSETS}/{batch}"]
        sparse = not commits.state_ids and not files.names(directory, STATE)
        entries = LogEntries.of(batches(directory, OFFSETS), batches(directory, COMMITS))
        before = entries.previous(batch, sparse=sparse)
        if before is not None:
            # Although it is committed: Spark refuses to start without it.
            read_offsets(directory, before)
            needed.append(f"{OFFSETS}/{before}")
        state = [file.path for file in (reader or StateReader(directory)).files(offsets, commits)]
        state += state_metadata(directory, batch)
    if planned is not None:
        needed.append(f"{OFFSETS}/{planned}")
        needed += _before_compaction(directory, batch)
    if last >= 0:
        needed += source_files(directory, read_offsets(directory, last))
    return list(dict.fromkeys(needed + state)), planned


def source_files(directory: Tree, offsets: OffsetsEntry) -> list[str]:
    """Return the files of all source logs that a query needs whose last planned batch is that of *offsets*.

    :raises CheckpointCorruptError: An entry is missing.
    """
    found: list[str] = []
    for position in range(len(offsets.offsets)):
        log = source_log(directory, offsets, position)
        last = offsets.log_offset(position)
        if last is not None:
            found += CompactibleLog(directory, log).closure(last)
        else:
            # Kafka, rate: one file with the initial offset. Anything else that is numbered there belongs to the source.
            found += [f"{log}/{number}" for number in numbers(directory, log)]
    return found


def _before_compaction(directory: Tree, batch: int) -> list[str]:
    """Return the source files of the committed batch, in addition to a planned one that compacts the log.

    Spark needs only the compact entry. A checkpoint taken before the planned batch is committed needs the merged
    entries.
    """
    try:
        return source_files(directory, read_offsets(directory, batch)) if batch >= 0 else []
    except files.FileGoneError:
        return []  # Spark has removed it already


def source_log(directory: Tree, offsets: OffsetsEntry, position: int) -> str:
    """Return the path of the log of the source at *position*: by position, or by name where sources are named.

    :raises UnreadableError: Several sources are named, and the offset log, of format 1, does not say which is which.
    """
    by_name, by_position = f"{SOURCES}/{offsets.sources[position]}", f"{SOURCES}/{position}"
    if (directory / by_name).is_directory():
        return by_name
    named = [name for name in files.names(directory / SOURCES) if not name.isdigit() and not name.startswith(".")]
    if not named or (directory / by_position).is_directory():
        return by_position
    if len(named) == len(offsets.sources) == 1:
        return f"{SOURCES}/{named[0]}"
    reason = f"offset log format 1 does not say which of {', '.join(named)} is source {position}"
    raise files.UnreadableError(SOURCES, reason, next_step=_NAMES_IN_OFFSETS)


def state_metadata(directory: Tree, batch: int) -> Iterator[str]:
    """Yield the schema and operator metadata files that were written up to *batch*."""
    for operator in numbers(directory, STATE):
        place = f"{STATE}/{operator}"
        yield from _plain_files(directory, f"{place}/_metadata")
        yield from _up_to(directory, f"{place}/_metadata/v2", batch)
        for store in files.names(directory, f"{place}/_stateSchema"):
            yield from _up_to(directory, f"{place}/_stateSchema/{store}", batch)
        for partition in numbers(directory, place):
            inner = f"{place}/{partition}"
            own = files.names(directory, inner)
            if "_metadata" in own:
                yield from _plain_files(directory, f"{inner}/_metadata")
            for store in own:
                if store[:1].isalpha():
                    yield from _plain_files(directory, f"{inner}/{store}/_metadata")


def checksum_files(directory: Tree, needed: Iterable[str]) -> dict[str, int]:
    """Return the checksum files that there are of files: Spark's visible one, and Hadoop's hidden one of each.

    :return: Path relative to the checkpoint -> size in bytes.
    """
    found: dict[str, int] = {}
    # A directory is listed once: to ask for each of three names would be more calls than everything else together.
    listed: dict[str, frozenset[str]] = {}
    for name in needed:
        parent, _, own = name.rpartition("/")
        if parent not in listed:
            listed[parent] = frozenset(files.names(directory, parent))
        prefix = f"{parent}/" if parent else ""
        for candidate in (f"{own}.crc", f".{own}.crc", f".{own}.crc.crc"):
            if candidate in listed[parent] and files.exists(directory, f"{prefix}{candidate}"):
                found[f"{prefix}{candidate}"] = files.size(directory, f"{prefix}{candidate}")
    return found


def _plain_files(directory: Tree, place: str) -> Iterator[str]:
    for name in files.names(directory, place):
        if not name.startswith(".") and not name.endswith(".crc") and files.exists(directory, f"{place}/{name}"):
            yield f"{place}/{name}"


def _up_to(directory: Tree, place: str, batch: int) -> Iterator[str]:
    for path in _plain_files(directory, place):
        number = Path(path).name.split("_")[0]
        if number.isascii() and number.isdigit() and int(number) <= batch:
            yield path
