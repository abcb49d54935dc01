"""Copy of a foreign savepoint into a work area.

Invariant: a directory without a manifest is not a savepoint, and the manifest is written last. Every file is compared
with the old manifest during the copy; the new manifest describes the copied files.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from airflow_provider_ha.checkpoints.model import ManifestFile, Savepoint
from airflow_provider_ha.checkpoints.savepoints.layout import StoredSavepoint
from airflow_provider_ha.checkpoints.savepoints.restore import fetch
from airflow_provider_ha.checkpoints.savepoints.savepoint_files import MANIFEST
from airflow_provider_ha.checkpoints.trees.at_once import each
from airflow_provider_ha.checkpoints.trees.tree import WritableTree
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.storage.durable import make_directories


_WHOLE = 4 << 20  # bytes: a larger file is uploaded in parts


def copied(stored: StoredSavepoint, target: WritableTree) -> Savepoint:
    """Copy a savepoint to *target*; return the new manifest.

    :param target: Its directory; empty.
    :raises CheckpointCorruptError: The source differs from its manifest.
    :raises ObjectExistsError: A file of the target exists.
    :raises StorageUnavailableError: A read or write failed.
    """
    if target.local_path is not None:
        make_directories(target.local_path.parent)
        return fetch(stored, target.local_path)
    with stored.reader() as bring, tempfile.TemporaryDirectory(prefix="spark-ha-copy-") as scratch:

        def put(name: str) -> ManifestFile:
            path = Path(scratch) / new_id()
            file = bring(name, path)
            if file.size <= _WHOLE:
                target.create(name, path.read_bytes())
            else:
                target.upload(name, path)
            path.unlink()
            return file

        names = list(stored.savepoint.files)
        files = dict(zip(names, each(put, names), strict=True))
    digested = all(file.digested_by for file in files.values())
    made = stored.savepoint.model_copy(update={"files": files, "digested": digested, "shares_inodes": False})
    target.create(MANIFEST, made.to_bytes())
    return made
