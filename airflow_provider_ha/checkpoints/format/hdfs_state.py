"""State of the HDFS-backed provider: one delta per version, and now and then a snapshot.

Invariant: a version is whole only with its newest snapshot (none is the empty one before version 1) and every delta
after it.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from functools import partial

from airflow_provider_ha.checkpoints.format.store_files import Chain, Kind, StateFile, Store
from airflow_provider_ha.checkpoints.trees.files import FileGoneError


_NAME = re.compile(r"(\d+)\.(delta|snapshot)")


def versions(store: Store) -> list[int]:
    """Return the versions that have a file in this store, ascending."""
    return sorted({int(match[1]) for name in store.names if (match := _NAME.fullmatch(name))})


def chains(store: Store, version: int) -> list[Chain]:
    """Return the sets of files that *version* can be loaded from, in Spark's order.

    :raises FileGoneError: A delta is missing, without a snapshot in its place.
    """
    first = store.unbroken_from("delta", version)
    snapshots = store.remember("snapshots", lambda: _snapshots(store))
    based = snapshots[bisect_left(snapshots, first - 1) : bisect_right(snapshots, version)]
    found: list[Chain] = [partial(_files, store, base, version) for base in reversed(based)]
    if first == 1:
        found.append(partial(_files, store, 0, version))
    if not found:
        missing = store.path(f"{first - 1}.delta")
        raise FileGoneError(missing, f"state version {version} needs it, and it is not there")
    return found


def _snapshots(store: Store) -> list[int]:
    found = (name for name in store.names if name.endswith(".snapshot"))
    return sorted(int(match[1]) for name in found if (match := _NAME.fullmatch(name)))


def _files(store: Store, base: int, version: int) -> list[StateFile]:
    snapshot = [store.file(f"{base}.snapshot", Kind.SNAPSHOT)] if base else []
    return snapshot + [store.file(f"{step}.delta", Kind.DELTA) for step in range(base + 1, version + 1)]
