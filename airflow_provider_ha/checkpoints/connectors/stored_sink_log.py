"""Log of a file sink on storage without renames: S3, and other file stores.

Invariant: every step can be repeated after a crash, and removes only data that the previous step has copied. To set an
entry aside, it is first copied under its hidden name, exclusively, and then the exact version that was read is removed.
A seeded log is written from its end to its beginning: until it is complete, the entry that its readers begin with is
missing, and Spark refuses the log instead of reading a part.

Storage without renames cannot exclude a writer that was frozen in the middle of its request. The caller that sets an
entry aside must know that the writer is dead.
"""

from __future__ import annotations

import hashlib
import json

from airflow_provider_ha.checkpoints.connectors.file_sink_log import (
    EMPTY_ENTRY,
    LOG,
    SEEDING,
    check_mode,
    is_seeding,
    log_files,
    log_of_files,
)
from airflow_provider_ha.checkpoints.format.compactible_log import entry_names
from airflow_provider_ha.checkpoints.trees.files import read
from airflow_provider_ha.checkpoints.trees.tree import Tree
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.errors import ObjectExistsError, RestoreRefusedError
from airflow_provider_ha.storage.file_store import FileStore, StoredFile


class StoredSinkLog:
    """The log in one output.

    :param files: The files of the output.
    """

    def __init__(self, files: FileStore) -> None:
        self._files = files

    def set_aside(self, batch: int, sha256: str) -> bool:
        """Remove one entry from the log, if its digest matches; as the log of a file system does.

        :raises RestoreRefusedError: Another entry has that number, or the log continues after it.
        :raises CheckpointCorruptError: Without it the log would be incomplete.
        :raises StorageUnavailableError: The outcome is unknown.
        """
        entries = entry_names(self._files.names(f"{LOG}/"))
        last = max(entries, default=-1)
        if last < batch:
            return False
        key = f"{LOG}/{entries[last]}"
        found = self._files.info(key)
        data = self._files.read(key) if found is not None and last == batch else b""
        if found is None or last > batch or hashlib.sha256(data).hexdigest() != sha256:
            raise _refused(batch, self._files)
        log_files(log_of_files(self._files), batch - 1)
        self._keep(f"{LOG}/.{entries[batch]}.{sha256[:12]}.aside", data)
        self._remove(found, batch)
        return True

    def _keep(self, key: str, data: bytes) -> None:
        """Create the copy, unless a crashed attempt has."""
        try:
            self._files.create(key, data, writer=new_id())
        except ObjectExistsError:
            if self._files.read(key) != data:
                raise

    def _remove(self, entry: StoredFile, batch: int) -> None:
        now = self._files.info(entry.key)
        if now is not None and now != entry:
            raise _refused(batch, self._files)
        self._files.delete(entry.key)

    def seed(self, batch: int, mode: str, source: Tree) -> None:
        """Create the log of a new output that continues after *batch*, or complete a crashed attempt.

        :raises ObjectExistsError: The output has a log, or another one is being created there.
        :raises CheckpointCorruptError: The old log does not contain the closure of *batch*.
        :raises StorageUnavailableError: The outcome is unknown.
        """
        check_mode(mode)
        if batch < 0:
            return
        names = [name for name in log_files(source, batch) if not name.startswith(".")]
        wanted = {name: read(source, name) if mode == "continue" else EMPTY_ENTRY for name in names}
        self._begin(wanted)
        for name in reversed(names):
            self._keep(f"{LOG}/{name}", wanted[name])
        self._files.delete(f"{LOG}/{SEEDING}")

    def _begin(self, wanted: dict[str, bytes]) -> None:
        """Record the future log before its first entry, until the last one is written."""
        digests = {name: hashlib.sha256(data).hexdigest() for name, data in wanted.items()}
        said, there = json.dumps(digests, sort_keys=True).encode(), self._files.names(f"{LOG}/")
        if is_seeding(there):
            if self._files.read(f"{LOG}/{SEEDING}") == said:
                return
            raise _exists(self._files, "another log is being created there")
        if entry_names(there):
            raise _exists(self._files, "it already has a log")
        self._keep(f"{LOG}/{SEEDING}", said)


def _exists(files: FileStore, reason: str) -> ObjectExistsError:
    return ObjectExistsError(
        f"output {files.uri} cannot be given the log of another one: {reason}", next_step="Choose a new output"
    )


def _refused(batch: int, files: FileStore) -> RestoreRefusedError:
    return RestoreRefusedError(
        f"batch {batch} in {files.uri}/{LOG} is not the entry that the plan removes from the output",
        next_step="Plan the restore again: another process has written to this output since",
    )
