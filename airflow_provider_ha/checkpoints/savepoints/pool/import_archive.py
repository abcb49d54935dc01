"""A savepoint over a pool from an archive of any author.

Invariants: nothing of an archive reaches the bucket before all of it was unpacked on this host and found to be what its
manifest says. A file goes into the pool by a conditional create, under the sha256 of its bytes: an object that already
has that name is that file, whichever process uploaded it. The manifest is created last, once each query was judged from
there.
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


# One request up to this size, and this many bytes in memory for each of those that are under way.
WHOLE = 8 << 20


def bring(
    pool: Pool, name: str, archive: Path, *, holder: str, scratch: Path | None = None, clock: Clock | None = None
) -> Savepoint:
    """Make the savepoint *name* of an archive; it keeps the id and the time that the archive says.

    :param archive: As ``savepoint export`` writes it, of a directory, of a job or of a savepoint on S3.
    :param scratch: Directory in which it is unpacked and removed; that of the archive by default.
    :raises CheckpointCorruptError: The archive is refused, with the reason; nothing of it was uploaded.
    :raises ObjectExistsError: There is a savepoint of that name.
    :raises StorageUnavailableError: Something could not be read or written, there is no room, or a sweep is under way.
    """
    pool.check_free(name)
    with scratch_directory((scratch or archive.parent) / archive.name) as folder:
        directory = folder / "savepoint"
        savepoint = unpack(archive, directory)
        with using(pool.store, pool.leases, holder=holder, clock=clock) as held:
            made = savepoint.model_copy(
                # It is its user's from here on, whichever schedule made it.
                update={
                    "files": _uploaded(pool, directory, savepoint, held),
                    "digested": True,
                    "shares_inodes": False,
                    "schedule": None,
                }
            )
            return PoolDraft(pool, name, held).seal(made)


def _uploaded(pool: Pool, directory: Path, savepoint: Savepoint, held: PoolLock) -> dict[str, ManifestFile]:
    """Upload what the pool lacks; return what it has of every file."""
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
            raise CheckpointCorruptError(name, "it is not in the pool", next_step="Find out what removes objects there")
        files[name] = ManifestFile(size=size, sha256=digest, member=member, etag=present[member].etag)
    return files


def _create(pool: Pool, key: str, path: Path) -> None:
    """Put a file under a free name. A file that another import puts there first has the same content."""
    with suppress(ObjectExistsError):
        if path.stat().st_size <= WHOLE:
            pool.store.create(key, path.read_bytes())
            return
        # An upload in parts replaces what is there. A process that is killed here leaves an object that no manifest can
        # name.
        aside = f"{key}.{new_id()}"
        try:
            pool.store.upload(aside, path)
            pool.store.copy(aside, key, if_absent=True)
        finally:
            with suppress(StorageError):
                pool.store.delete(aside)


def _sha256(path: Path, file: ManifestFile) -> str:
    """Return the digest of what was unpacked; it was compared with that of the manifest, where that has one."""
    if file.sha256:
        return file.sha256
    with path.open("rb", buffering=0) as reader:
        return digest_of(reader).sha256
