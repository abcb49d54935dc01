"""Validation of storage keys before they become paths. Shared by all stores, so records cannot reach outside a root."""

from __future__ import annotations

from airflow_provider_ha.errors import ConfigurationError


def check_key(key: str) -> str:
    """Return *key* if it stays below the root of a store.

    Segments that begin with a dot are refused too: a local store prepares its objects under such names.

    :raises ConfigurationError: It is empty, absolute, or has an empty, dotted or control-character segment.
    """
    segments = key.split("/")
    if any(not segment or segment.startswith(".") or not segment.isprintable() for segment in segments):
        raise ConfigurationError(
            f"storage key {key!r} is not a relative path of plain names",
            next_step="Use names that do not begin with a dot, with single slashes between them",
        )
    return key


def check_prefix(prefix: str) -> str:
    """Return *prefix* when a listing by it stays below the root: empty, or the beginning of a valid key.

    :raises ConfigurationError: No valid key begins with it.
    """
    complete = prefix.removesuffix("/")
    if complete:
        check_key(complete)
    elif prefix:
        raise ConfigurationError("storage prefix '/' is absolute", next_step="Use a prefix without a leading slash")
    return prefix


def check_copy(source: str, target: str) -> None:
    """Assert that a copy has two ends.

    :raises ConfigurationError: Both are the same key.
    """
    if check_key(source) == check_key(target):
        raise ConfigurationError(f"object {source!r} cannot be copied onto itself", next_step="Name another target")
