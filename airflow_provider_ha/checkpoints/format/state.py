"""State files that a batch needs, of all operators, partitions and stores.

Invariant: batch N writes state version N + 1, and the query continues only when every store has it. The list of stores
comes from Spark's records (ids of the commit, operator metadata, pinned conf), not from existing directories: a
missing directory must be noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from airflow_provider_ha.checkpoints.format import hdfs_state, rocksdb
from airflow_provider_ha.checkpoints.format.layout import STATE, numbers
from airflow_provider_ha.checkpoints.format.metadata_log import CommitsEntry, OffsetsEntry
from airflow_provider_ha.checkpoints.format.operators import Operator, read_operator, substores
from airflow_provider_ha.checkpoints.format.pinned_conf import PROVIDER, SHUFFLE_PARTITIONS
from airflow_provider_ha.checkpoints.format.store_files import Chain, Kind, StateFile, Store
from airflow_provider_ha.checkpoints.trees.files import FileGoneError, names
from airflow_provider_ha.checkpoints.trees.tree import Tree
from airflow_provider_ha.errors import CheckpointCorruptError


_Ways = Callable[[Store, int, str | None], list[Chain]]
_HDFS_PROVIDER = "HDFSBackedStateStoreProvider"


@dataclass(frozen=True, slots=True)
class Need:
    """A version of a store that a batch needs. Called, it returns the ways to load it; raises as the reader does.

    :param place: The partition, or the store in it, relative to the checkpoint.
    :param version: Of the state.
    :param which: Its id with checkpoint format 2, else the provider that reads it.
    """

    place: str
    version: int
    which: str
    _find: Callable[[], list[Chain]] = field(compare=False)
    _repairs: Callable[[], list[Chain]] = field(compare=False, default=list)

    def __call__(self) -> list[Chain]:
        """Return the ways to load it, in Spark's order."""
        return self._find()

    def repairs(self) -> list[Chain]:
        """Return the ways that Spark goes, where it repairs, when the snapshot it tried first is bad."""
        return self._repairs()


class StateReader:
    """Finds the state of any batch of a checkpoint; remembers names and zips, so it is made again for each look.

    :param directory: The checkpoint.
    :param accept: Looks at a state file and raises ``CheckpointCorruptError`` when it is bad; without it, only an empty
        file is refused.
    """

    def __init__(self, directory: Tree, accept: Callable[[StateFile], None] | None = None) -> None:
        self._directory = directory
        self._accept = accept or check_not_empty
        self._stores: dict[str, Store] = {}
        self._operators: dict[int, Operator] = {}
        self._lacking: dict[tuple[str, int, str], CheckpointCorruptError | None] = {}

    def files(self, offsets: OffsetsEntry, commits: CommitsEntry) -> Iterator[StateFile]:
        """Yield the files of the state after the batch of these entries.

        :raises CheckpointCorruptError: A file is missing, does not match its reference, or cannot be read.
        """
        for find in self.stores_needed(offsets, commits):
            yield from self.first_whole(find())

    def stores_needed(self, offsets: OffsetsEntry, commits: CommitsEntry) -> Iterator[Need]:
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
                        yield Need(place, version, str(state_id), find, repairs)
            return
        provider, pinned = str(offsets.conf.get(PROVIDER, _HDFS_PROVIDER)), pinned_partitions(offsets)
        for operator in self.operators():
            for place in self._operator(operator).places(pinned):
                yield Need(place, version, provider, partial(self._by_number, self.store(place), version, provider))

    def lacks(self, need: Need) -> CheckpointCorruptError | None:
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

    def _look(self, need: Need) -> CheckpointCorruptError | None:
        try:
            for file in self._first_whole(need(), check_not_empty):
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

    def stores(self) -> Iterator[Store]:
        """Yield every store that is there."""
        for operator in numbers(self._directory, STATE):
            for partition in numbers(self._directory, f"{STATE}/{operator}"):
                place = f"{STATE}/{operator}/{partition}"
                yield self.store(place)
                yield from (self.store(f"{place}/{name}") for name in substores(self._directory, place))

    def store(self, place: str) -> Store:
        """Return the store at *place*."""
        if place not in self._stores:
            self._stores[place] = Store.open(self._directory, place)
        return self._stores[place]

    def _operator(self, number: int) -> Operator:
        if number not in self._operators:
            self._operators[number] = read_operator(self._directory, number)
        return self._operators[number]

    def _by_number(self, store: Store, version: int, provider: str) -> list[Chain]:
        if provider.endswith(_HDFS_PROVIDER):
            return hdfs_state.chains(store, version)
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
    if file.size == 0 and file.kind is not Kind.LOG:
        raise CheckpointCorruptError(file.path, "the file is empty")


def pinned_partitions(offsets: OffsetsEntry) -> int | None:
    """Return the number of partitions that a query is bound to; ``None`` in logs of Spark 2.1."""
    value = str(offsets.conf.get(SHUFFLE_PARTITIONS, "")).strip()
    return int(value) if value.isascii() and value.isdigit() else None
