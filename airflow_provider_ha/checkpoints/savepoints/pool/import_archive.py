"""Import of an untrusted archive into a pool.

Invariants: no file reaches the bucket before the whole archive was unpacked on this host and matched its manifest. A
conditional create puts each file into the pool under the sha256 of its bytes: an object that already has that name is
that file, from any process. The manifest is created last, after each query was judged from the pool.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from airflow_provider_ha.checkpoints.model import ManifestFile, Savepoint
from airflow_provider_ha.checkpoints.savepoints.archive.unpack import unpack
from airflow_provider_ha.checkpoints.savepoints.pool.layout import PoolDraft
from airflow_provider_ha.checkpoints.savepoints.pool.leases import PoolLock, using
from airflow_provider_ha.checkpoints.savepoints.pool.pool import Pool, digest_member
from airflow_provider_ha.checkpoints.trees.at_once import each
from airflow_provider_ha.checkpoints.trees.attempts import scratch_directory
from airflow_provider_ha.checkpoints.trees.digests import digest_of
from airflow_provider_ha.clock import Clock, new_id
from airflow_provider_ha.errors import CheckpointCorruptError, ObjectExistsError, StorageError


# Largest single-request upload, in bytes; each concurrent upload holds that much memory.
WHOLE = 8 << 20


def bring(
    pool: Pool, name: str, archive: Path, *, holder: str, scratch: Path | None = None, clock: Clock | None = None
) -> Savepoint:
    """Make the savepoint *name* of an archive; it keeps the id and time of the archive.

    :param archive: As ``savepoint export`` writes it, from a directory, a job or a savepoint on S3.
    :param scratch: Directory for the temporary unpacked files; by default the directory of the archive.
    :raises CheckpointCorruptError: The archive is refused, with the reason; no file was uploaded.
    :raises ObjectExistsError: A savepoint with that name exists.
    :raises StorageUnavailableError: A read or write failed, the disk has too little space, or a sweep is running.
    """
    pool.check_free(name)
    with scratch_directory((scratch or archive.parent) / archive.name) as folder:
        directory = folder / "savepoint"
        savepoint = unpack(archive, directory)
        with using(pool.store, pool.leases, holder=holder, clock=clock) as held:
            made = savepoint.model_copy(
                # From now on the savepoint is the user's, even if a schedule made it.
                update={
                    "files": _uploaded(pool, directory, savepoint, held),
                    "digested": True,
                    "shares_inodes": False,
                    "schedule": None,
                }
            )
            return PoolDraft(pool, name, held).seal(made)


def _uploaded(pool: Pool, directory: Path, savepoint: Savepoint, held: PoolLock) -> dict[str, ManifestFile]:
    """Upload the files that the pool lacks; return all manifest entries."""
    digests = {name: _sha256(directory / name, file) for name, file in savepoint.files.items()}
    wanted = {digest_member(digest, savepoint.files[name].size): name for name, digest in digests.items()}
    present = pool.present()

    def put(member: str) -> None:
        held.check()
        if member not in present:
            _create(pool, pool.members + member, directory / wanted[member])

    each(put, wanted)
    present = pool.present()
    files = {}
    for name, digest in digests.items():
        size = savepoint.files[name].size
        member = digest_member(digest, size)
        if member not in present:
            raise CheckpointCorruptError(
                name, "it is not in the pool", next_step="Find the process or lifecycle rule that removes objects there"
            )
        files[name] = ManifestFile(size=size, sha256=digest, member=member, etag=present[member].etag)
    return files


def _create(pool: Pool, key: str, path: Path) -> None:
    """Create a file under a free name. A file that another import creates first has the same content."""
    with suppress(ObjectExistsError):
        if path.stat().st_size <= WHOLE:
            pool.store.create(key, path.read_bytes())
            return
        # A multipart upload replaces an existing object. A process killed during it leaves an object that no manifest
        # can name.
        aside = f"{key}.{new_id()}"
        try:
            pool.store.upload(aside, path)
            pool.store.copy(aside, key, if_absent=True)
        finally:
            with suppress(StorageError):
                pool.store.delete(aside)


def _sha256(path: Path, file: ManifestFile) -> str:
    """Return the sha256 of an unpacked file; a digest in the manifest was compared already."""
    if file.sha256:
        return file.sha256
    with path.open("rb", buffering=0) as reader:
        return digest_of(reader).sha256
