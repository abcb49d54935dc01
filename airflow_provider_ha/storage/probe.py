"""Whether a store really works: what the Test button of a connection asks."""

from __future__ import annotations

from airflow_provider_ha.clock import new_id
from airflow_provider_ha.errors import ObjectExistsError, StorageUnavailableError
from airflow_provider_ha.storage.store import ObjectStore


def probe(store: ObjectStore) -> None:
    """Create, find again and remove an object, and see that a second creation is refused.

    The last is not pedantry: a server that ignores conditional writes would let two epochs overwrite each other's
    payloads, and it would say so only on the day of the failover.

    :raises StorageUnavailableError: With the reason and what to do.
    """
    key = f"probe/{new_id()}"
    data = key.encode()
    store.create(key, data)
    try:
        if store.read(key) != data:
            raise StorageUnavailableError(
                f"storage {store.uri} does not return what was just written",
                next_step="Use a store that is consistent after a write; caches in between must be off",
            )
        _check_conditional(store, key)
    finally:
        store.delete(key)


def _check_conditional(store: ObjectStore, key: str) -> None:
    try:
        store.create(key, b"second")
    except ObjectExistsError:
        return
    raise StorageUnavailableError(
        f"storage {store.uri} ignores conditional writes",
        next_step="Use a store that honours If-None-Match, or a file:// root",
    )
