"""The closure of a batch: the log entries and state files that Spark needs to continue after it, and no others.

Invariant: with exactly these files in an empty directory, Spark's next batch is the one after N (or exactly the planned
one again), with the state of N. Everything else is left behind: source entries above the cut would merge files into
other batches, and state above it is another timeline's (spark-facts section 1).

Invariant: batch N writes state version N + 1, and the query continues only when every store has it. The list of stores
comes from Spark's records (ids of the commit, operator metadata, pinned conf), not from existing directories: a
missing directory must be noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from airflow_provider_ha.checkpoints.spark import files, rocksdb, state_store
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import (
    COMMITS,
    METADATA,
    OFFSETS,
    SOURCES,
    STATE,
    batches,
    numbers,
)
from airflow_provider_ha.checkpoints.spark.files import FileGoneError, names
from airflow_provider_ha.checkpoints.spark.metadata_log import (
    COMPACT,
    CommitsEntry,
    CompactibleLog,
    LogEntries,
    OffsetsEntry,
    read_commits,
    read_offsets,
    read_query_id,
)
from airflow_provider_ha.checkpoints.spark.operators import StatefulOperator, read_operator, substores
from airflow_provider_ha.checkpoints.spark.releases import PROVIDER, SHUFFLE_PARTITIONS
from airflow_provider_ha.checkpoints.spark.state_store import Chain, StateFile, StateFileKind, StateStore
from airflow_provider_ha.checkpoints.spark.tree import Tree
from airflow_provider_ha.errors import CheckpointCorruptError, CheckpointMissingError


_Ways = Callable[[StateStore, int, str | None], list[Chain]]
_HDFS_PROVIDER = "HDFSBackedStateStoreProvider"


@dataclass(frozen=True, slots=True)
class NeededVersion:
    """A version of a store that a batch needs.

    :param place: The partition, or the store in it, relative to the checkpoint.
    :param which: Its id with checkpoint format 2, else the provider that reads it.
    :param ways: Returns the ways to load it, in Spark's order; raises as the reader does.
    :param repairs: Returns the ways that Spark goes, where it repairs, when the snapshot it tried first is bad.
    """

    place: str
    version: int
    which: str
    ways: Callable[[], list[Chain]] = field(compare=False)
    repairs: Callable[[], list[Chain]] = field(compare=False, default=list)


class StateReader:
    """Finds the state of any batch of a checkpoint; remembers names and zips, so it is made again for each look.

    :param accept: Looks at a state file and raises ``CheckpointCorruptError`` when it is bad; without it, only an empty
        file is refused.
    """

    def __init__(self, directory: Tree, accept: Callable[[StateFile], None] | None = None) -> None:
        self._directory = directory
        self._accept = accept or check_not_empty
        self._stores: dict[str, StateStore] = {}
        self._operators: dict[int, StatefulOperator] = {}
        self._lacking: dict[tuple[str, int, str], CheckpointCorruptError | None] = {}

    def files(self, offsets: OffsetsEntry, commits: CommitsEntry) -> Iterator[StateFile]:
        """Yield the files of the state after the batch of these entries.

        :raises CheckpointCorruptError: A file is missing, does not match its reference, or cannot be read.
        """
        for need in self.stores_needed(offsets, commits):
            yield from self.first_whole(need.ways())

    def stores_needed(self, offsets: OffsetsEntry, commits: CommitsEntry) -> Iterator[NeededVersion]:
        """Yield, for each store, what finds the ways to load it; both raise as :meth:`files` does.

        A store that lacks something does not hide the ones after it: they are found one by one.
        """
        version = commits.batch + 1
        if commits.state_ids:
            for operator, partitions in sorted(commits.state_ids.items()):
                expected = self._operator(operator).count(pinned_partitions(offsets))
                if len(partitions) < expected:
                    reason = f"the commit names {len(partitions)} partitions, the offset log {expected}"
                    raise CheckpointCorruptError(f"{STATE}/{operator}", reason)
                for partition, ids in enumerate(partitions):
                    place = f"{STATE}/{operator}/{partition}"
                    for state_id in ids:
                        find = partial(self._by_id, place, version, state_id)
                        repairs = partial(self._by_id, place, version, state_id, rocksdb.repairs)
                        yield NeededVersion(place, version, str(state_id), find, repairs)
            return
        provider, pinned = str(offsets.conf.get(PROVIDER, _HDFS_PROVIDER)), pinned_partitions(offsets)
        for operator in self.operators():
            for place in self._operator(operator).places(pinned):
                yield NeededVersion(
                    place, version, provider, partial(self._by_number, self.store(place), version, provider)
                )

    def lacks(self, need: NeededVersion) -> CheckpointCorruptError | None:
        """Return the damage in the files that a fork uses for a store, or ``None``; cached.

        A fork checks only names and sizes. It takes the first way that is complete by these, and no file of an older
        way: with bad content, Spark could not continue from the fork.
        """
        key = need.place, need.version, need.which  # hashed faster than a dataclass is
        try:
            return self._lacking[key]
        except KeyError:
            self._lacking[key] = error = self._look(need)
            return error

    def _look(self, need: NeededVersion) -> CheckpointCorruptError | None:
        try:
            for file in self._first_whole(need.ways(), check_not_empty):
                self._accept(file)
        except CheckpointCorruptError as error:
            return error
        return None

    def first_whole(self, chains: list[Chain]) -> list[StateFile]:
        """Return the files of the first complete way to load a store.

        An older way is equivalent: a fork has no files of the newer one, so Spark finds only this one.

        :raises CheckpointCorruptError: All ways are damaged; the message is about the first.
        """
        return self._first_whole(chains, self._accept)

    def _first_whole(self, chains: list[Chain], accept: Callable[[StateFile], None]) -> list[StateFile]:
        first: CheckpointCorruptError | None = None
        for chain in chains:
            try:
                return _accepted(chain, accept)
            except CheckpointCorruptError as error:  # noqa: PERF203  # each way may fail by itself
                first = first or error
        raise first or CheckpointCorruptError(STATE, "no file holds the state")

    def whole(self, chain: Chain) -> list[StateFile]:
        """Return the files of *chain*; raises when one is not there, or is not accepted."""
        return _accepted(chain, self._accept)

    def operators(self) -> list[int]:
        """Return the ids of the operators that must have state, ascending: they are numbered without a gap."""
        begun = [number for number in numbers(self._directory, STATE) if names(self._directory, f"{STATE}/{number}")]
        if not begun and (self._directory / STATE).is_directory():
            raise FileGoneError(STATE, "the query had state, and its directory is empty")
        return list(range(max(begun, default=-1) + 1))

    def stores(self) -> Iterator[StateStore]:
        """Yield every store that is there."""
        for operator in numbers(self._directory, STATE):
            for partition in numbers(self._directory, f"{STATE}/{operator}"):
                place = f"{STATE}/{operator}/{partition}"
                yield self.store(place)
                yield from (self.store(f"{place}/{name}") for name in substores(self._directory, place))

    def store(self, place: str) -> StateStore:
        """Return the store at *place*."""
        if place not in self._stores:
            self._stores[place] = StateStore.open(self._directory, place)
        return self._stores[place]

    def _operator(self, number: int) -> StatefulOperator:
        if number not in self._operators:
            self._operators[number] = read_operator(self._directory, number)
        return self._operators[number]

    def _by_number(self, store: StateStore, version: int, provider: str) -> list[Chain]:
        if provider.endswith(_HDFS_PROVIDER):
            return state_store.hdfs_chains(store, version)
        if "RocksDB" in provider:
            return rocksdb.chains(store, version, None)
        raise CheckpointCorruptError(store.place, f"the state store provider {provider} is not known")

    def _by_id(self, place: str, version: int, state_id: str | None, ways: _Ways = rocksdb.chains) -> list[Chain]:
        if state_id is None:
            raise CheckpointCorruptError(place, f"the commit names no id for state version {version}")
        # An id is unique, so the store that has its file is its store; the order of the ids is not needed.
        inner = substores(self._directory, place)
        stores = [self.store(f"{place}/{name}") for name in inner] or [self.store(place)]
        stem = f"{version}_{state_id}"
        store = next((s for s in stores if {f"{stem}.zip", f"{stem}.changelog"} & s.names), None)
        if store is None:
            suffix = "changelog" if any(rocksdb.changelogs_used(s) for s in stores) else "zip"
            missing = f"{stores[0].place if len(stores) == 1 else place}/{stem}.{suffix}"
            raise FileGoneError(missing, f"state version {version} needs it, and it is not there")
        return ways(store, version, state_id)


def _accepted(chain: Chain, accept: Callable[[StateFile], None]) -> list[StateFile]:
    found = chain()
    for file in found:
        accept(file)
    return found


def check_not_empty(file: StateFile) -> None:
    """Refuse an empty state file; archived logs of RocksDB may be empty.

    :raises CheckpointCorruptError: The file has no bytes.
    """
    if file.size == 0 and file.kind is not StateFileKind.LOG:
        raise CheckpointCorruptError(file.path, "the file is empty")


def pinned_partitions(offsets: OffsetsEntry) -> int | None:
    """Return the number of partitions that a query is bound to; ``None`` in logs of Spark 2.1."""
    value = str(offsets.conf.get(SHUFFLE_PARTITIONS, "")).strip()
    return int(value) if value.isascii() and value.isdigit() else None


_NAMES_IN_OFFSETS = (
    "A query that begins with spark.sql.streaming.offsetLog.formatVersion=2 has an offset log that names them"
)


def closure(directory: Tree, batch: int, *, with_planned: bool, reader: StateReader | None = None) -> dict[str, int]:
    """Return the sizes of the files of a fork, pin or savepoint of *batch*, by path relative to the checkpoint.

    Checksum files are included. The order is that of the copy: logs first, so that later files cannot be torn.

    :param batch: N, a committed batch; -1 for an empty closure.
    :param with_planned: Whether an existing ``offsets/<N+1>`` belongs to it: Spark executes exactly that batch again.
    :param reader: Shares reads between the calls for many batches.
    :raises CheckpointMissingError: The batch does not exist, or Spark has purged it: choose a newer one.
    :raises CheckpointCorruptError: A file is missing or bad; the first one is named.
    :raises StorageUnavailableError: A file could not be read: nothing is known about the checkpoint.
    """
    try:
        needed = needed_files(directory, batch, with_planned=with_planned, reader=reader)
        found = _compact_before(directory, needed) | {name: files.size(directory, name) for name in needed}
        checksums = checksum_files(directory, found)
    except files.FileGoneError as error:
        # Spark purges the logs before the state, so the logs show whether a file was purged during this read or lost.
        if batch >= 0 and min(batches(directory.fresh(), OFFSETS), default=batch + 1) > max(batch - 1, 0):
            raise CheckpointMissingError(
                f"batch {batch} of {directory} was purged while it was read", next_step="Choose a newer batch"
            ) from error
        raise
    return found | checksums


def needed_files(directory: Tree, batch: int, *, with_planned: bool, reader: StateReader | None = None) -> list[str]:
    """Return the paths of a closure without its checksum files; raises as :func:`closure`."""
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
    return list(dict.fromkeys(needed + state))


def _compact_before(directory: Tree, needed: Iterable[str]) -> dict[str, int]:
    """Return the compact entries of source logs by which Spark knows the interval, where it has not removed them."""
    found: dict[str, int] = {}
    for name in needed:
        if name.startswith(f"{SOURCES}/") and name.endswith(COMPACT):
            log, _, entry = name.removesuffix(COMPACT).rpartition("/")
            before = CompactibleLog(directory, log).before(int(entry))
            # guard: copies-without-the-interval
            if before is not None:
                with suppress(files.FileGoneError):
                    found[before] = files.size(directory, before)
    return found


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
    reason = f"offset log format 1 does not record which of {', '.join(named)} is source {position}"
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
