"""Storage of savepoints in a bucket: a pool of objects, and the manifests that name them.

Layout of ``s3://bucket/savepoints``::

    _manifests/<savepoint>.json    written last, by a conditional create; without it there is no savepoint
    _pool/<xx>/<etag>-<size>       content of a file with that etag; created once, never changed
    _pool/<xx>/sha256-<…>-<size>   a file from an archive
    _leases/<purpose>-<id>.json    the lease of one working process

A member is named by the identity of its source, so a file in two savepoints is stored once. Invariant: a member always
matches its name, because the server copies only an object that still has that etag, and uploads are digested first. An
S3 etag is an MD5, so it never names content that an attacker may have made.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from airflow_provider_ha.checkpoints.model import ManifestFile, Savepoint
from airflow_provider_ha.checkpoints.spark.object_tree import ObjectTree
from airflow_provider_ha.checkpoints.spark.places import s3_uri
from airflow_provider_ha.checkpoints.store.savepoints.manifest import check_path
from airflow_provider_ha.config import S3Options
from airflow_provider_ha.errors import (
    CheckpointCorruptError,
    CheckpointMissingError,
    ConfigurationError,
    ObjectExistsError,
    ObjectMissingError,
    RecordCorruptError,
)
from airflow_provider_ha.names import check_name, check_query
from airflow_provider_ha.storage.file_store import ListedObject
from airflow_provider_ha.storage.limits import S3Limits
from airflow_provider_ha.storage.s3 import S3Store
from airflow_provider_ha.storage.s3_files import S3Reader
from airflow_provider_ha.uris import split


_ETAG = re.compile(r"[0-9A-Za-z-]{1,128}")
_MEMBER = re.compile(r"[0-9A-Za-z-]{1,2}/[0-9A-Za-z-]{1,128}-[0-9]+")
_MANIFEST = ".json"


@dataclass(frozen=True, slots=True)
class PoolPlace:
    """A prefix of a bucket.

    :param prefix: Empty, or ends with a slash.
    """

    bucket: str
    prefix: str

    @classmethod
    def of(cls, uri: str) -> PoolPlace:
        """Parse an S3 URI.

        :raises ConfigurationError: It names no bucket.
        """
        place = split(s3_uri(uri))
        path = place.path.strip("/")
        return cls(place.authority, f"{path}/" if path else "")

    @property
    def name(self) -> str:
        """The last part of the prefix."""
        return self.prefix.rstrip("/").rpartition("/")[2]

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/")


def savepoint_place(uri: str) -> tuple[PoolPlace, str]:
    """Return the place and name of a savepoint URI: ``s3://bucket/savepoints/before-upgrade``.

    :raises ConfigurationError: It cannot name a savepoint.
    """
    place = PoolPlace.of(uri)
    parent, _, name = place.prefix.rstrip("/").rpartition("/")
    if not name:
        raise ConfigurationError(
            f"{uri!r} names no savepoint", next_step="Write s3://bucket/NAME, or s3://bucket/prefix/NAME"
        )
    return PoolPlace(place.bucket, f"{parent}/" if parent else ""), check_name(name, "name of the savepoint")


class Pool:
    """The savepoints of one place.

    :param place: Their prefix.
    :param options: S3 connection options; from the environment by default.
    :param limits: Bounds of every request.
    """

    def __init__(self, place: PoolPlace, options: S3Options | None = None, limits: S3Limits | None = None) -> None:
        self.place = place
        # At the root of the bucket, because the checkpoints are outside the prefix.
        root, reached = f"s3://{place.bucket}", options or S3Options.from_env()
        self.store = S3Store(root, reached, limits)
        self.reader = S3Reader(root, reached, limits)

    @property
    def leases(self) -> str:
        """Prefix of the leases."""
        return f"{self.place.prefix}_leases/"

    @property
    def members(self) -> str:
        """Prefix of the pool."""
        return f"{self.place.prefix}_pool/"

    def manifest_key(self, name: str) -> str:
        """Return the key of a manifest."""
        return f"{self.place.prefix}_manifests/{name}{_MANIFEST}"

    def uri(self, name: str) -> str:
        """Return the URI of a savepoint."""
        return f"{self.place}/{name}"

    def names(self) -> list[str]:
        """Return the names of all savepoints.

        :raises StorageUnavailableError: The listing failed.
        """
        prefix = self.manifest_key("").removesuffix(_MANIFEST)
        return [item.key.removeprefix(prefix).removesuffix(_MANIFEST) for item in self.store.list(prefix)]

    def read(self, name: str) -> Savepoint:
        """Return a savepoint's manifest.

        :raises CheckpointMissingError: The savepoint does not exist.
        :raises CheckpointCorruptError: Its manifest is damaged.
        :raises StorageUnavailableError: It could not be read.
        """
        key = self.manifest_key(name)
        try:
            data = self.store.read(key)
            return _checked(Savepoint.from_bytes(data, source=f"{self.store.uri}/{key}"), key)
        except ObjectMissingError:
            raise CheckpointMissingError(
                f"savepoint {self.uri(name)} does not exist",
                next_step="A savepoint that never completed has no manifest",
            ) from None
        except RecordCorruptError as error:
            raise CheckpointCorruptError(key, error.message) from error

    def check_free(self, name: str) -> None:
        """Check that the name is free.

        :raises ObjectExistsError: A savepoint has it.
        :raises StorageUnavailableError: The store could not be read.
        """
        if self.store.info(self.manifest_key(name)) is not None:
            raise ObjectExistsError(f"savepoint {self.uri(name)} already exists", next_step="Choose another name")

    def present(self) -> dict[str, ListedObject]:
        """Return member -> object for all members of the pool.

        :raises StorageUnavailableError: The listing failed.
        """
        return {item.key.removeprefix(self.members): item for item in self.reader.list(self.members)}

    def tree_at(self, place: PoolPlace) -> ObjectTree:
        """Return a prefix of the same bucket as a directory."""
        return ObjectTree(self.reader, place.prefix)

    def tree_of(self, files: Mapping[str, ManifestFile], query: str, present: dict[str, ListedObject]) -> ObjectTree:
        """Return a query's part of a savepoint as a directory.

        :param files: The files of the savepoint.
        :param present: The members of the pool.
        """
        return ObjectTree(_Named(self, files, present), f"{query}/")


def _checked(savepoint: Savepoint, key: str) -> Savepoint:
    """Return the manifest after checking its names: they become keys and local paths."""
    for name, file in savepoint.files.items():
        check_path(name)
        if not _MEMBER.fullmatch(file.member):
            raise CheckpointCorruptError(
                key, f"file {name!r} refers to {file.member!r}, which is not a valid member name"
            )
    for query, part in savepoint.queries.items():
        check_query(query)
        if not savepoint.files.keys() >= {f"{query}/{name}" for name in part.files}:
            raise CheckpointCorruptError(key, f"not all files of query {query!r} are described")
    return savepoint


def member_of(etag: str, size: int) -> str:
    """Return the name of the pool member with this etag."""
    plain = etag.strip('"')
    if not _ETAG.fullmatch(plain):
        plain = hashlib.sha256(etag.encode()).hexdigest()
    return f"{plain[:2]}/{plain}-{size}"


def digest_member(sha256: str, size: int) -> str:
    """Return the name of the pool member with this digest: sha256 allows no forged content."""
    return f"{sha256[:2]}/sha256-{sha256}-{size}"


class _Named:
    """The files of a savepoint under their own names, without those missing from the pool."""

    def __init__(self, pool: Pool, files: Mapping[str, ManifestFile], present: dict[str, ListedObject]) -> None:
        self._pool = pool
        self._files = files
        self._present = present

    @property
    def uri(self) -> str:
        return f"{self._pool.place}/_pool"

    def list(self, prefix: str) -> Iterator[ListedObject]:
        for name, file in sorted(self._files.items()):
            item = self._present.get(file.member)
            if name.startswith(prefix) and item is not None:
                yield ListedObject(name, item.size, item.etag)

    def read(self, key: str) -> bytes:
        return self._pool.reader.read(self._key(key))

    def read_range(self, item: ListedObject, offset: int, length: int) -> bytes:
        return self._pool.reader.read_range(ListedObject(self._key(item.key), item.size, item.etag), offset, length)

    def _key(self, name: str) -> str:
        return self._pool.members + self._files[name].member
