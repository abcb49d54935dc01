"""The savepoint that a user names: by its id, by the beginning of its id, or by its label.

Invariant: a word stands for one savepoint or for none. What could be another one, also because its pointer cannot be
read, is named in the refusal and never chosen: the word may be that of a removal.
"""

from __future__ import annotations

from airflow_provider_ha.checkpoints.model import SavepointPointer
from airflow_provider_ha.checkpoints.savepoints.store import SavepointStore
from airflow_provider_ha.errors import CheckpointMissingError, ConfigurationError


_SHOWN = 10  # candidates that are named


def named_savepoint(store: SavepointStore, word: str) -> SavepointPointer:
    """Return the pointer of the savepoint that *word* names. An exact id is never ambiguous.

    :raises CheckpointMissingError: No savepoint has an id that begins so, or that label.
    :raises ConfigurationError: Several have; they are named.
    :raises RecordCorruptError: It is one whose pointer cannot be read.
    """
    if not word.strip():
        raise ConfigurationError("the name of the savepoint is empty", next_step=_list_them(store))
    try:
        return store.pointer(word)
    except (CheckpointMissingError, ConfigurationError):
        candidates = _candidates(store, word)
    if not candidates:
        raise CheckpointMissingError(
            f"job {store.job_id!r} has no savepoint {word!r}: none has this id, one that begins so, or this label",
            next_step=_list_them(store),
        )
    if len(candidates) > 1:
        named = ", ".join(candidates[:_SHOWN])
        more = f" and {len(candidates) - _SHOWN} more" if len(candidates) > _SHOWN else ""
        raise ConfigurationError(
            f"{word!r} may name {len(candidates)} savepoints of job {store.job_id!r}: {named}{more}",
            next_step="Write more of the id",
        )
    return store.pointer(candidates[0])


def _candidates(store: SavepointStore, word: str) -> list[str]:
    """Return the ids that *word* may mean, newest first; those whose pointer cannot be read come last."""
    listing = store.list()
    found = [each.savepoint_id for each in listing if each.savepoint_id.startswith(word) or each.label == word]
    labelled = any(each.label == word for each in listing)
    # Of a pointer that cannot be read the label is not known: it may be the same.
    return found + [each.name for each in listing.unreadable if each.name.startswith(word) or labelled]


def _list_them(store: SavepointStore) -> str:
    return f"List them with `spark-ha savepoint list {store.job_id}`"
