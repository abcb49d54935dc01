"""Removes what a search has found, as the leader of the job or under its epoch.

Invariant: the right to remove is proven before the first file and again after so many. A process that was frozen
between a proof and a removal removes what was garbage already, and garbage stays garbage: a base that is made later
names files of directories that are not over, which need none of it.
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
    """Remove files in their order, and yield each that is gone.

    :param prove: Raises when this process may no longer remove anything of the job.
    :raises LeadershipError: It may not.
    :raises StorageUnavailableError: Whether a file was removed is not known; the next pass goes on.
    """
    for position, item in enumerate(garbage):
        if position % REMOVALS_PER_PROOF == 0:  # guard: files-go-without-a-proof
            prove()
        files.delete(item.key)
        yield item


def note_needs(files: FileStore, known: Mapping[str, KnownNeeds], prove: Callable[[], None]) -> None:
    """Write down what the current directory needs: the next takeover leaves out the rest.

    What a frozen process writes late was true before, so it leaves out less.

    :param known: Key of a query directory -> what is known of it.
    :param prove: Raises when this process may no longer write for the job.
    :raises LeadershipError: It may not.
    :raises StorageUnavailableError: Whether it was written is not known; the next pass writes it again.
    """
    for directory, needs in known.items():
        prove()
        files.write(f"{directory}/{NEEDS}", needs.to_bytes())


def time_of(files: FileStore) -> int:
    """Return the storage's time in milliseconds since 1970: ages are differences of its times, never of two clocks.

    A probe is written and removed for it.

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
            f"storage {files.uri} does not return what was just written", next_step="Use a store that is consistent"
        )
    return probe.mtime
