"""Savepoints over a pool: taken from checkpoints in its bucket, imported, and restored into another prefix.

Invariant: the server copies all bytes, and only while the object still has the etag of the listing. The manifest is
created last, after the copies proved that each query can be restored. A process killed earlier leaves members that no
manifest names: a sweep collects them.

Invariant: the savepoint stays unchanged. S3 has no rename, so a prefix fills up file by file: the files that Spark
reads
first come last, the query id by a conditional create. Spark does not start from an interrupted restore.

Invariants: no file reaches the bucket before the whole archive was unpacked on this host and matched its manifest. A
conditional create puts each file into the pool under the sha256 of its bytes: an object that already has that name is
that file, from any process. The manifest is created last, after each query was judged from the pool.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from airflow_provider_ha.checkpoints.areas.relocation import checked_by, is_relocated, relocated
from airflow_provider_ha.checkpoints.model import Algorithm, ManifestFile, Savepoint
from airflow_provider_ha.checkpoints.sinks.file_sink_log import LOG
from airflow_provider_ha.checkpoints.spark.atomic import scratch_directory
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import METADATA
from airflow_provider_ha.checkpoints.spark.digests import digest_of, recorded
from airflow_provider_ha.checkpoints.spark.object_tree import ObjectTree, each
from airflow_provider_ha.checkpoints.store.savepoints.archive import unpack
from airflow_provider_ha.checkpoints.store.savepoints.pool import Pool, PoolPlace, digest_member, member_of
from airflow_provider_ha.checkpoints.store.savepoints.pool_sweep import PoolLock, using
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_layout import Bring, SavepointSource, TornError
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_report import check
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_restore import fetched, stages
from airflow_provider_ha.clock import Clock, new_id
from airflow_provider_ha.errors import (
    CheckpointCorruptError,
    CheckpointMissingError,
    ConfigurationError,
    ObjectExistsError,
    ObjectMissingError,
    StorageError,
)
from airflow_provider_ha.storage.file_store import ListedObject
from airflow_provider_ha.storage.object_store import Checksum


class SavepointInPool:
    """A savepoint over a pool.

    :param name: Its name in the pool.
    :param savepoint: Its manifest.
    :param holder: Name of this process, for the operator.
    """

    layout = "pool"

    def __init__(self, pool: Pool, name: str, savepoint: Savepoint, holder: str) -> None:
        self.pool = pool
        self.name = name
        self.savepoint = savepoint
        self.holder = holder
        self._present: dict[str, ListedObject] | None = None

    @property
    def location(self) -> str:
        """Its URI."""
        return self.pool.uri(self.name)

    def tree(self, query: str) -> ObjectTree:
        """Return the part of a query, from the listing of the last comparison."""
        return self.pool.tree_of(self.savepoint.files, query, self._listed())

    def wrong_files(self, *, only: Container[str] | None = None) -> list[CheckpointCorruptError]:  # noqa: ARG002
        """Return the files that differ between pool and manifest, in manifest order.

        A member is created once, and its etag shows whether it is still the same object: no byte is read.
        """
        self._present = None
        found: list[CheckpointCorruptError] = []
        for name, file in self.savepoint.files.items():
            item = self._listed().get(file.member)
            if item is None:
                found.append(CheckpointCorruptError(name, "it is in the manifest but not in the pool"))
            elif item.size != file.size:
                found.append(CheckpointCorruptError(name, f"it has {item.size} bytes, the manifest says {file.size}"))
            elif item.etag != file.etag:
                found.append(CheckpointCorruptError(name, "it was replaced in the pool: its etag differs"))
        return found

    def strangers(self) -> list[CheckpointCorruptError]:
        """Return an empty list: a pool also holds the files of other savepoints."""
        return []

    def use(self) -> AbstractContextManager[PoolLock]:
        """Keep sweeps away while the block runs.

        :raises StorageUnavailableError: A sweep is running.
        """
        return using(self.pool.store, self.pool.leases, holder=self.holder)

    def at_hand(self, target: Path) -> AbstractContextManager[tuple[Path, Savepoint]]:
        """Return a temporary local copy; removes leftovers of a killed process too."""
        return fetched(self, target)

    @contextmanager
    def reader(self) -> Iterator[Bring]:
        """Yield a function that downloads files, after all of them matched the manifest.

        :raises CheckpointCorruptError: A file differs.
        :raises StorageUnavailableError: The pool could not be read, or a sweep is running.
        """
        with self.use() as held:
            for problem in self.wrong_files():
                raise problem

            def bring(name: str, target: Path) -> ManifestFile:
                held.check()
                self.pool.store.download(self.pool.members + self.savepoint.files[name].member, target)
                with target.open("rb", buffering=0) as reader:
                    return digest_of(reader)

            yield bring

    def _listed(self) -> dict[str, ListedObject]:
        if self._present is None:
            self._present = self.pool.present()
        return self._present


def open_savepoint(pool: Pool, name: str, *, holder: str) -> SavepointInPool:
    """Return a savepoint of a pool; raises as :meth:`Pool.read` does."""
    return SavepointInPool(pool, name, pool.read(name), holder)


class PoolDraft:
    """A savepoint without a manifest yet.

    :param held: The lease of this process.
    """

    def __init__(self, pool: Pool, name: str, held: PoolLock) -> None:
        self._pool = pool
        self._name = name
        self._held = held
        self._present: dict[str, ListedObject] = {}

    def bring(self, files: Iterable[tuple[str, ObjectTree, str]]) -> dict[str, ManifestFile]:
        """Let the server copy the files that the pool lacks."""
        # Hidden checksums belong to Hadoop on a disk: on S3 no reader compares them, and S3A writes none.
        found = {name: directory.listed(inner) for name, directory, inner in files if "/." not in f"/{inner}"}
        present = self._pool.present()
        wanted = {member_of(item.etag, item.size): item for item in found.values()}

        def copy(member: str) -> Checksum | None:
            self._held.check()
            return self._copied(wanted[member], member, known=member in present)

        digests = dict(zip(wanted, each(copy, wanted), strict=True))
        self._present = self._pool.present()
        return {name: _pooled(name, item, self._present, digests) for name, item in found.items()}

    def copied(self, files: Mapping[str, ManifestFile], query: str) -> ObjectTree:
        """Return the copied part of a query."""
        return self._pool.tree_of(files, query, self._present)

    def seal(self, savepoint: Savepoint) -> Savepoint:
        """Judge the copies in the pool, then create the manifest.

        :raises ObjectExistsError: A savepoint with that name exists.
        """
        try:
            check(SavepointInPool(self._pool, self._name, savepoint, ""))
        except CheckpointCorruptError as error:
            raise TornError(error.path, error.reason, next_step="Run `spark-ha checkpoint verify`") from error
        self._held.check()
        self._pool.store.create(self._pool.manifest_key(self._name), savepoint.to_bytes())
        return savepoint

    def _copied(self, item: ListedObject, member: str, *, known: bool) -> Checksum | None:
        key = self._pool.members + member
        if not known:
            try:
                return self._pool.store.copy(item.key, key, if_absent=True, if_match=item.etag).checksum
            except ObjectExistsError:
                pass  # another savepoint created it first
            except ObjectMissingError as error:
                raise CheckpointMissingError(
                    f"{item.key} was purged or replaced while it was copied", next_step="Take a newer batch"
                ) from error
        info = self._pool.store.info(key)
        return None if info is None else info.checksum


@dataclass(frozen=True, slots=True)
class PoolLayout:
    """Layout of a savepoint in a pool.

    :param name: Its name; unique in the pool.
    :param holder: Name of this process, for the operator.
    """

    pool: Pool
    name: str
    holder: str

    def check(self, sources: Sequence[SavepointSource[PoolPlace]]) -> None:
        """Check that the savepoint can be made of *sources*.

        :raises ConfigurationError: It cannot.
        :raises ObjectExistsError: A savepoint with that name exists.
        """
        for source in sources:
            for place in (source.directory, source.sink):
                if place is not None and place.bucket != self.pool.place.bucket:
                    raise ConfigurationError(
                        f"{place} of query {source.query!r} is in another bucket than {self.pool.place}",
                        next_step="Name a savepoint in the same bucket: its server copies the files",
                    )
            if self.pool.place.prefix.startswith(source.directory.prefix) and source.directory.prefix:
                raise ConfigurationError(
                    f"{self.pool.place} is inside the checkpoint to save",
                    next_step="Save it to another prefix",
                )
        self.pool.check_free(self.name)

    def named(self, created_at: datetime) -> str:  # noqa: ARG002  # interface
        """Return its name."""
        return self.name

    def tree(self, place: PoolPlace) -> ObjectTree:
        """Return a prefix with a fresh listing."""
        return self.pool.tree_at(place)

    def sink_log(self, output: PoolPlace) -> ObjectTree:
        """Return the log of a file sink with a fresh listing."""
        return self.pool.tree_at(PoolPlace(output.bucket, f"{output.prefix}{LOG}/"))

    def uri(self, place: PoolPlace) -> str:
        """Return the URI of a place."""
        return str(place)

    @contextmanager
    def drafts(self) -> Iterator[Callable[[], AbstractContextManager[PoolDraft]]]:
        """Yield a factory of attempts, under the lease of this process."""
        with using(self.pool.store, self.pool.leases, holder=self.holder) as held:
            yield lambda: nullcontext(PoolDraft(self.pool, self.name, held))


def _pooled(
    name: str, item: ListedObject, present: dict[str, ListedObject], digests: dict[str, Checksum | None]
) -> ManifestFile:
    member = member_of(item.etag, item.size)
    copied, checksum = present.get(member), digests[member]
    if copied is None or copied.size != item.size:
        raise TornError(
            name,
            "its copy in the pool is missing or was replaced",
            next_step="Find the process or lifecycle rule that removes objects there",
        )
    described = ManifestFile(size=item.size)
    if checksum is not None:
        described = recorded(item.size, Algorithm(checksum.algorithm.lower()), checksum.value)
    return described.model_copy(update={"member": member, "etag": copied.etag})


def restore_prefix(stored: SavepointInPool, target: PoolPlace, *, spark_version: str | None = None) -> None:
    """Create ``<target>/<query>``, a checkpoint location for Spark, for every query of a savepoint.

    :param target: Prefix of the same bucket; must be empty.
    :param spark_version: The release that will start from it; the one in the manifest by default.
    :raises CheckpointCorruptError: The savepoint differs from its manifest, or a query could not continue from it.
    :raises ConfigurationError: The target is in another bucket.
    :raises ObjectExistsError: The target is not empty.
    :raises StorageUnavailableError: A read or write failed, or a sweep is running.
    """
    pool = stored.pool
    if target.bucket != pool.place.bucket or not target.prefix:
        raise ConfigurationError(
            f"{target} is not a prefix of bucket {pool.place.bucket}",
            next_step="Choose one: the server copies within a bucket",
        )
    if next(iter(pool.store.list(target.prefix)), None) is not None:
        raise ObjectExistsError(f"{target} is not empty", next_step="Choose another prefix")
    with stored.use() as held:
        check(stored, spark_version=spark_version)

        def put(name: str) -> None:
            held.check()
            _put(pool, stored.savepoint, name, target)

        for stage in stages(stored.savepoint):
            each(put, stage)


def _put(pool: Pool, savepoint: Savepoint, name: str, target: PoolPlace) -> None:
    query, _, inner = name.partition("/")
    source, key = pool.members + savepoint.files[name].member, target.prefix + name
    moved, path = None, f"{query}/{checked_by(inner)}"
    if is_relocated(checked_by(inner)) and path in savepoint.files:
        data = pool.store.read(pool.members + savepoint.files[path].member)
        moved = relocated(data, path, f"s3a://{target.bucket}/{target.prefix}{query}")
    if moved is None:
        pool.store.copy(source, key, if_absent=inner == METADATA)
    elif not name.endswith(".crc"):  # Spark's checksum would cover the old bytes
        pool.store.write(key, moved)


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
