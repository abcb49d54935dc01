"""Checks of a root before use: the marker of its cluster, and a probe of its conditional writes.

The marker is created before any other object, exclusively and once (``jobs.cluster_roots``). Without the marker a
missing file proves nothing, because the file system may not be mounted here.

The probe tests the conditional create in particular, because two epochs, two submissions and two recoveries depend on
it. Two creations in a row detect a server that ignores the condition. A server that first reads and then writes passes
that test, and would let both writers win at a failover; only simultaneous creations detect it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Barrier
from typing import ClassVar, Protocol

from airflow_provider_ha.clock import new_id
from airflow_provider_ha.errors import ObjectExistsError, ObjectMissingError, StorageError, StorageUnavailableError
from airflow_provider_ha.records import Record
from airflow_provider_ha.storage.object_store import ObjectStore
from airflow_provider_ha.storage.outage import outages


RACERS = 8
ROUNDS = 4

_NEXT_STEP = "Use a store that honours If-None-Match atomically, or a file:// root"


def probe(store: ObjectStore, *creations: Callable[[str], None]) -> None:
    """Create, read and remove objects; check that exactly one creation of several wins, also simultaneous ones.

    :param creations: More ways to create an object; each must refuse an existing one.
    :raises StorageUnavailableError: With the reason and the next step.
    """
    key = f"probe/{new_id()}"
    data = key.encode()
    with _removed(store, key):
        store.create(key, data)
        if store.read(key) != data:
            raise StorageUnavailableError(
                f"storage {store.uri} does not return a fresh object",
                next_step="Use a store that is consistent after a write; caches in between must be off",
            )
        for create in (lambda key: store.create(key, b"second"), *creations):
            _check_refusal(store, create, key)
    for number in range(ROUNDS):
        _check_race(store, f"{key}-race-{number}")


def _check_refusal(store: ObjectStore, create: Callable[[str], None], key: str) -> None:
    try:
        create(key)
    except ObjectExistsError:
        return
    raise StorageUnavailableError(f"storage {store.uri} ignores conditional writes", next_step=_NEXT_STEP)


def _check_race(store: ObjectStore, key: str) -> None:
    start = Barrier(RACERS)

    def create(racer: int) -> bool:
        start.wait()
        try:
            store.create(key, _mark(racer))
        except ObjectExistsError:
            return False
        return True

    with _removed(store, key):
        with ThreadPoolExecutor(RACERS) as pool:
            won = list(pool.map(create, range(RACERS)))
        winners = [racer for racer, is_winner in enumerate(won) if is_winner]
        if len(winners) != 1 or store.read(key) != _mark(winners[0]):
            raise StorageUnavailableError(
                f"storage {store.uri} does not write conditionally in one step:"
                f" {len(winners)} of {RACERS} simultaneous creations of an object succeeded",
                next_step=_NEXT_STEP,
            )


def _mark(racer: int) -> bytes:
    return f"racer {racer}".encode()


@contextmanager
def _removed(store: ObjectStore, key: str) -> Iterator[None]:
    """Remove an object at the end, also after a failure; a failed removal does not hide the first error."""
    try:
        yield
    except BaseException:
        with suppress(StorageError):
            store.delete(key)
        raise
    store.delete(key)


MARKER = "cluster.json"
"""Key of the marker, in both roots."""


class ClusterRoots(Record):
    """Content of the marker and of the cluster's node: locations of the roots, as seen by their creator.

    :param uuid: Identity of the cluster; differs for another cluster with the same name.
    :param storage: URI of the storage root, with the cluster's id.
    :param work: URI of the work root, with the cluster's id.
    """

    kind: ClassVar[str] = "cluster-roots"

    uuid: str
    storage: str
    work: str


def read_marker(root: ObjectStore) -> ClusterRoots | None:
    """Return the marker of a root; ``None`` without one.

    :raises RecordCorruptError: Its bytes differ from the writer's.
    :raises StorageUnavailableError: It could not be read.
    """
    try:
        return ClusterRoots.from_bytes(root.read(MARKER), source=f"{root.uri}/{MARKER}")
    except ObjectMissingError:
        return None


class Roots(Protocol):
    """Roots of a cluster, for a store in any root (``jobs.cluster_roots``)."""

    def settle(self) -> None:
        """Ensure that these are the cluster's roots, and create the roots of a new cluster.

        :raises ConfigurationError: The cluster has other roots.
        :raises StorageUnavailableError: A root has no marker, so it is not mounted here.
        """

    def require(self) -> None:
        """Check that the roots exist, if the cluster has any; raises as :meth:`settle`. Changes nothing."""


def is_marked(root: Path) -> bool:
    """Return whether a local directory is the root of a cluster.

    :raises StorageUnavailableError: This could not be determined.
    """
    with outages("looked up", root):
        try:
            (root / MARKER).stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
    return True
