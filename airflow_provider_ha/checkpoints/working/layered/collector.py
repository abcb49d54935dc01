"""Removal of the files that a search found, as the leader of the job or under its epoch.

Invariant: the right to remove is proven before the first file and again after a fixed number. A process that was frozen
between a proof and a removal removes existing garbage, and garbage stays garbage: a later base names files of
directories that are not over, and these need none of the garbage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from airflow_provider_ha.checkpoints.working.layered.garbage import Garbage
from airflow_provider_ha.checkpoints.working.layered.needs_record import KnownNeeds
from airflow_provider_ha.checkpoints.working.layered.tree import NEEDS
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.errors import StorageUnavailableError
from airflow_provider_ha.storage.file_store import FileStore


REMOVALS_PER_PROOF = 50


def remove(files: FileStore, garbage: Iterable[Garbage], prove: Callable[[], None]) -> Iterator[Garbage]:
    """Remove files in order, and yield each removed one.

    :param prove: Raises when this process may no longer remove files of the job.
    :raises LeadershipError: The right is lost.
    :raises StorageUnavailableError: The outcome of a removal is unknown; the next pass continues.
    """
    for position, item in enumerate(garbage):
        if position % REMOVALS_PER_PROOF == 0:  # guard: files-go-without-a-proof
            prove()
        files.delete(item.key)
        yield item


def note_needs(files: FileStore, known: Mapping[str, KnownNeeds], prove: Callable[[], None]) -> None:
    """Record the needs of the current directory: the next takeover omits all other files.

    A late write by a frozen process was true earlier, so it omits fewer files.

    :param known: Key of a query directory -> its known needs.
    :param prove: Raises when this process may no longer write for the job.
    :raises LeadershipError: The right is lost.
    :raises StorageUnavailableError: The outcome of a write is unknown; the next pass writes again.
    """
    for directory, needs in known.items():
        prove()
        files.write(f"{directory}/{NEEDS}", needs.to_bytes())


def time_of(files: FileStore) -> int:
    """Return the storage's time in milliseconds since 1970: ages compare its times, never two clocks.

    It writes and removes a probe.

    :raises StorageUnavailableError: The probe could not be written.
    """
    key = f"probe/{new_id()}-time"
    files.write(key, b"")
    try:
        probe = files.info(key)
    finally:
        files.delete(key)
    if probe is None:
        raise StorageUnavailableError(
            f"storage {files.uri} does not return a fresh object",
            next_step="Use a store that is consistent",
        )
    return probe.mtime
