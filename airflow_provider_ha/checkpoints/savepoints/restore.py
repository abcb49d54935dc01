"""Local copies of a savepoint: checkpoints for a manual start, or another savepoint.

Invariant: the savepoint stays unchanged, byte for byte, and shares no file with its copies: it can be restored any
number of times.
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
    """Create ``<target>/<query>``, a checkpoint location for Spark, for every query of a savepoint.

    :param target: Must not exist; appears with all queries or not at all.
    :param spark_version: The release that will start from it; the one in the manifest by default.
    :raises CheckpointCorruptError: The savepoint differs from its manifest, or a query could not continue from it.
    :raises ConfigurationError: The target has no parent directory.
    :raises ObjectExistsError: The target exists.
    :raises StorageUnavailableError: A read or write failed.
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
    """Yield a temporary local copy; removes leftovers of a killed process too.

    :param target: The copy is made next to it; raises as :func:`fetch` does.
    """
    with scratch_directory(target) as scratch:
        directory = scratch / "savepoint"
        yield directory, fetch(stored, directory)


def fetch(stored: StoredSavepoint, target: Path) -> Savepoint:
    """Copy any savepoint into a local directory; return its manifest, completed with missing digests.

    :param target: Must not exist; appears complete or not at all.
    :raises CheckpointCorruptError: The savepoint differs from its manifest.
    :raises ObjectExistsError: The target exists.
    :raises StorageUnavailableError: A read or write failed.
    """
    with _attempt(stored, target, None) as (hidden, bring):
        files = {name: bring(name, hidden / name) for name in stored.savepoint.files}
        digested = all(file.digested_by for file in files.values())
        made = stored.savepoint.model_copy(update={"files": files, "digested": digested, "shares_inodes": False})
        write_manifest(hidden, made)
    return made


@contextmanager
def _attempt(stored: StoredSavepoint, target: Path, spark_version: str | None) -> Iterator[tuple[Path, Bring]]:
    """Yield a hidden directory and its copy function; it becomes *target* when every query can be restored from it."""
    with directory_attempt(target) as hidden, stored.reader() as bring:
        yield hidden, bring
        look = verifier("quick", spark_version or stored.savepoint.spark_version)
        bad = damage(LocalTree(hidden), stored.savepoint.cut, look)
        if bad is not None:
            raise bad
