"""Prefetch of all files that the batches need, several stores in parallel where that is faster.

Invariant: only files that a batch needs are read, and no decision is made here. The judgement of a batch meets a bad
file again without reading it again. Each store belongs to one thread, with its files and zips.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import chain

from airflow_provider_ha.checkpoints.format.closure import source_files
from airflow_provider_ha.checkpoints.format.layout import COMMITS, METADATA, OFFSETS, batches
from airflow_provider_ha.checkpoints.format.state import Need, StateReader
from airflow_provider_ha.checkpoints.format.store_files import StateFile
from airflow_provider_ha.checkpoints.trees.tree import Tree
from airflow_provider_ha.checkpoints.verify.logs import Logs
from airflow_provider_ha.errors import CheckpointCorruptError, StorageUnavailableError


# Called after each partition or store with the number of finished ones and the total.
Tell = Callable[[int, int], None]


def expect_logs(directory: Tree) -> None:
    """Announce a read of all log entries, where a batched read helps."""
    if directory.at_once == 1:
        return
    entries = (f"{log}/{batch}" for log in (OFFSETS, COMMITS) for batch in batches(directory, log))
    directory.expect([METADATA, *entries])


def expect_sources(directory: Tree, logs: Logs) -> None:
    """Announce a read of the source log entries that any batch needs, where a batched read helps."""
    if directory.at_once == 1:
        return
    needed: list[str] = []
    for entry in logs.offsets.values():
        with suppress(CheckpointCorruptError):
            needed += source_files(directory, entry)
    directory.expect(needed)


def stores_of(logs: Logs, reader: StateReader) -> Mapping[str, list[Need]]:
    """Return the state files that the batches need, newest first, by store."""
    stores: dict[str, list[Need]] = {}
    for batch in sorted(logs.offsets.keys() & logs.commits.keys(), reverse=True):
        with suppress(CheckpointCorruptError):
            for need in reader.stores_needed(logs.offsets[batch], logs.commits[batch]):
                stores.setdefault(need.place, []).append(need)
    return stores


def files_of(stores: Mapping[str, list[Need]]) -> Iterator[StateFile]:
    """Yield each store's files to read first. Unreadable files are left to later checks."""
    for need in chain.from_iterable(stores.values()):
        with suppress(CheckpointCorruptError, StorageUnavailableError):
            yield from need()[0]()


def look_into_state(directory: Tree, stores: Mapping[str, list[Need]], reader: StateReader, tell: Tell | None) -> None:
    """Read the state of all batches.

    :raises StorageUnavailableError: A file could not be read.
    """
    for done, _ in enumerate(_each(stores.values(), reader, directory.at_once), start=1):
        if tell is not None:
            tell(done, len(stores))


def _each(stores: Iterable[list[Need]], reader: StateReader, at_once: int) -> Iterator[None]:
    def look(needs: list[Need]) -> None:
        for need in needs:
            reader.lacks(need)

    if at_once == 1:
        yield from map(look, stores)
        return
    with ThreadPoolExecutor(at_once) as pool:
        try:
            yield from pool.map(look, stores)
        finally:
            # One unreadable file is the answer for all: the others need no request.
            pool.shutdown(cancel_futures=True)
