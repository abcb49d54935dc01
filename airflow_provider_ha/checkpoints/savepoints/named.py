"""Lookup of a savepoint by the user's word: its id, a prefix of its id, or its label.

Invariant: a word names exactly one savepoint, or the lookup fails. The refusal lists all candidates, including those
whose pointer cannot be read, and never chooses: the word may belong to a removal.
"""

from __future__ import annotations

from airflow_provider_ha.checkpoints.model import SavepointPointer
from airflow_provider_ha.checkpoints.savepoints.store import SavepointStore
from airflow_provider_ha.errors import CheckpointMissingError, ConfigurationError


_SHOWN = 10  # candidates in the message


def named_savepoint(store: SavepointStore, word: str) -> SavepointPointer:
    """Return the pointer of the savepoint that *word* names. An exact id is never ambiguous.

    :raises CheckpointMissingError: No savepoint has this label or an id with this prefix.
    :raises ConfigurationError: Several match; the message lists them.
    :raises RecordCorruptError: The pointer of the matching savepoint cannot be read.
    """
    if not word.strip():
        raise ConfigurationError("the savepoint name is empty", next_step=_list_them(store))
    try:
        return store.pointer(word)
    except (CheckpointMissingError, ConfigurationError):
        candidates = _candidates(store, word)
    if not candidates:
        raise CheckpointMissingError(
            f"job {store.job_id!r} has no savepoint {word!r}: none has this id, an id with this prefix, or this label",
            next_step=_list_them(store),
        )
    if len(candidates) > 1:
        named = ", ".join(candidates[:_SHOWN])
        more = f" and {len(candidates) - _SHOWN} more" if len(candidates) > _SHOWN else ""
        raise ConfigurationError(
            f"{word!r} may name {len(candidates)} savepoints of job {store.job_id!r}: {named}{more}",
            next_step="Give a longer prefix of the id",
        )
    return store.pointer(candidates[0])


def _candidates(store: SavepointStore, word: str) -> list[str]:
    """Return the ids that *word* may mean, newest first, then those with an unreadable pointer."""
    listing = store.list()
    found = [each.savepoint_id for each in listing if each.savepoint_id.startswith(word) or each.label == word]
    labelled = any(each.label == word for each in listing)
    # The label of an unreadable pointer is unknown: it may match.
    return found + [each.name for each in listing.unreadable if each.name.startswith(word) or labelled]


def _list_them(store: SavepointStore) -> str:
    return f"List them with `spark-ha savepoint list {store.job_id}`"
