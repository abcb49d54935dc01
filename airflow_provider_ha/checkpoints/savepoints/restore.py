"""Files of a savepoint on this host: checkpoints that a query is started from by hand, or another savepoint.

Invariant: the savepoint stays as it is, byte for byte, and shares nothing with what was made of it: it can be restored
any number of times.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from airflow_provider_ha.checkpoints.model import Savepoint
from airflow_provider_ha.checkpoints.savepoints.layout import Bring, StoredSavepoint
from airflow_provider_ha.checkpoints.savepoints.savepoint_files import write_manifest
from airflow_provider_ha.checkpoints.trees.attempts import directory_attempt, scratch_directory
from airflow_provider_ha.checkpoints.trees.local_tree import LocalTree
from airflow_provider_ha.checkpoints.verify.restorable import damage, verifier
from airflow_provider_ha.checkpoints.working.relocation import relocate


def restore(stored: StoredSavepoint, target: Path, *, spark_version: str | None = None) -> None:
    """Make ``<target>/<query>``, a checkpoint location that Spark can start from, for every query of a savepoint.

    :param target: Must not exist; appears with all queries or not at all.
    :param spark_version: The release that is to start from it; the one in the manifest by default.
    :raises CheckpointCorruptError: The savepoint is not what its manifest says, or a query could not go on from it.
    :raises ConfigurationError: The target lies in no directory.
    :raises ObjectExistsError: The target exists.
    :raises StorageUnavailableError: Something could not be read or written.
    """
    place = target.parent.resolve() / target.name
    with _attempt(stored, target, spark_version) as (hidden, bring):
        for query, part in stored.savepoint.queries.items():
            (hidden / query).mkdir()
            for name in part.files:
                bring(f"{query}/{name}", hidden / query / name)
            relocate(hidden / query, place / query)


@contextmanager
def fetched(stored: StoredSavepoint, target: Path) -> Iterator[tuple[Path, Savepoint]]:
    """Yield a copy that is removed afterwards; what a killed process left of one is removed as well.

    :param target: The copy lies beside it; raises as :func:`fetch` does.
    """
    with scratch_directory(target) as scratch:
        directory = scratch / "savepoint"
        yield directory, fetch(stored, directory)


def fetch(stored: StoredSavepoint, target: Path) -> Savepoint:
    """Make a savepoint in a directory of any other one; return its manifest, with a digest of what has none.

    :param target: Must not exist; appears with everything or not at all.
    :raises CheckpointCorruptError: The savepoint is not what its manifest says.
    :raises ObjectExistsError: The target exists.
    :raises StorageUnavailableError: Something could not be read or written.
    """
    with _attempt(stored, target, None) as (hidden, bring):
        files = {name: bring(name, hidden / name) for name in stored.savepoint.files}
        digested = all(file.digested_by for file in files.values())
        made = stored.savepoint.model_copy(update={"files": files, "digested": digested, "shares_inodes": False})
        write_manifest(hidden, made)
    return made


@contextmanager
def _attempt(stored: StoredSavepoint, target: Path, spark_version: str | None) -> Iterator[tuple[Path, Bring]]:
    """Yield a hidden directory and what fills it; it becomes *target* when every query can be restored from there."""
    with directory_attempt(target) as hidden, stored.reader() as bring:
        yield hidden, bring
        look = verifier("quick", spark_version or stored.savepoint.spark_version)
        bad = damage(LocalTree(hidden), stored.savepoint.cut, look)
        if bad is not None:
            raise bad
