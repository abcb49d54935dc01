"""Savepoints over a pool, copied from checkpoints in its bucket while their queries run.

Invariant: the server copies all bytes, and only while the object still has the etag of the listing. The manifest is
created last, after the copies proved that each query can be restored. A process killed earlier leaves members that no
manifest names: a sweep collects them.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from airflow_provider_ha.checkpoints.connectors.file_sink_log import LOG
from airflow_provider_ha.checkpoints.model import Algorithm, ManifestFile, Savepoint
from airflow_provider_ha.checkpoints.savepoints.judge import check
from airflow_provider_ha.checkpoints.savepoints.layout import Bring, SavepointSource, TornError
from airflow_provider_ha.checkpoints.savepoints.pool.leases import PoolLock, using
from airflow_provider_ha.checkpoints.savepoints.pool.pool import Place, Pool, member_of
from airflow_provider_ha.checkpoints.savepoints.restore import fetched
from airflow_provider_ha.checkpoints.trees.at_once import each
from airflow_provider_ha.checkpoints.trees.digests import digest_of, recorded
from airflow_provider_ha.checkpoints.trees.object_tree import ObjectTree
from airflow_provider_ha.errors import (
    CheckpointCorruptError,
    CheckpointMissingError,
    ConfigurationError,
    ObjectExistsError,
    ObjectMissingError,
)
from airflow_provider_ha.storage.reading import Listed
from airflow_provider_ha.storage.store import Checksum


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
        self._present: dict[str, Listed] | None = None

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

    def _listed(self) -> dict[str, Listed]:
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
        self._present: dict[str, Listed] = {}

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

    def _copied(self, item: Listed, member: str, *, known: bool) -> Checksum | None:
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

    def check(self, sources: Sequence[SavepointSource[Place]]) -> None:
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

    def tree(self, place: Place) -> ObjectTree:
        """Return a prefix with a fresh listing."""
        return self.pool.tree_at(place)

    def sink_log(self, output: Place) -> ObjectTree:
        """Return the log of a file sink with a fresh listing."""
        return self.pool.tree_at(Place(output.bucket, f"{output.prefix}{LOG}/"))

    def uri(self, place: Place) -> str:
        """Return the URI of a place."""
        return str(place)

    @contextmanager
    def drafts(self) -> Iterator[Callable[[], AbstractContextManager[PoolDraft]]]:
        """Yield a factory of attempts, under the lease of this process."""
        with using(self.pool.store, self.pool.leases, holder=self.holder) as held:
            yield lambda: nullcontext(PoolDraft(self.pool, self.name, held))


def _pooled(name: str, item: Listed, present: dict[str, Listed], digests: dict[str, Checksum | None]) -> ManifestFile:
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
