"""Checkpoint directories out of a savepoint, for a query that is started by hand.

Invariant: the savepoint stays as it is, byte for byte, and shares nothing with what was made of it: it can be restored
any number of times.
"""

from __future__ import annotations

from pathlib import Path

from airflow_provider_ha.checkpoints.model import Savepoint
from airflow_provider_ha.checkpoints.savepoints.manifest_names import check_manifest
from airflow_provider_ha.checkpoints.trees.attempts import check_target, directory_attempt
from airflow_provider_ha.checkpoints.trees.copying import copy_file
from airflow_provider_ha.checkpoints.verify.restorable import damage, verifier
from airflow_provider_ha.checkpoints.working.relocation import relocate
from airflow_provider_ha.errors import CheckpointCorruptError


def restore(directory: Path, savepoint: Savepoint, target: Path, *, spark_version: str | None = None) -> None:
    """Make ``<target>/<query>``, a checkpoint location that Spark can start from, for every query of a savepoint.

    :param directory: The savepoint.
    :param target: Must not exist; appears with all queries or not at all.
    :param spark_version: The release that is to start from it; the one in the manifest by default.
    :raises CheckpointCorruptError: The savepoint is not what its manifest says, or a query could not go on from it.
    :raises ConfigurationError: The target lies in no directory.
    :raises ObjectExistsError: The target exists.
    :raises StorageUnavailableError: Something could not be read or written.
    """
    check_target(target)
    check_manifest(savepoint)
    place = target.parent.resolve() / target.name
    with directory_attempt(target) as hidden:
        for query, part in savepoint.queries.items():
            (hidden / query).mkdir()
            for name in part.files:
                _copy(directory, hidden, f"{query}/{name}", savepoint)
            relocate(hidden / query, place / query)
        cut = {query: part.batch for query, part in savepoint.queries.items()}
        bad = damage(hidden, cut, verifier("quick", spark_version or savepoint.spark_version))
        if bad is not None:
            raise bad


def _copy(source: Path, target: Path, name: str, savepoint: Savepoint) -> None:
    expected = savepoint.files[name]
    try:
        copied = copy_file(source / name, target / name, expected.digested_by)
    except (FileNotFoundError, NotADirectoryError):
        raise CheckpointCorruptError(name, "it is in the manifest and not there") from None
    if copied != expected:
        raise CheckpointCorruptError(
            name, "it is not what the manifest says", next_step="See `spark-ha savepoint verify`; nothing was made"
        )
