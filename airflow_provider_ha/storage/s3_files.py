"""Objects of S3 as files shared with other programs, and a reader of foreign objects.

Invariants:

* A conditional create is one request with ``If-None-Match: *``. A 412 is believed only if the object is another
  writer's, because the response to the winning request may have been lost. The object's metadata contain the writer;
  its bytes prove nothing.
* Every request reads at most the requested range, within one deadline; an interrupted read is retried. An object that
  is read in several requests is one object: each request names the listed version.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_ha.config import S3Options
from airflow_provider_ha.errors import ObjectExistsError, ObjectMissingError, StorageUnavailableError
from airflow_provider_ha.storage._s3_bucket import Bucket
from airflow_provider_ha.storage._s3_responses import REFUSED, code_of, is_absent, is_conflict, is_cut, whole
from airflow_provider_ha.storage.file_store import ListedObject, StoredFile, check_file_key, check_file_prefix
from airflow_provider_ha.storage.limits import S3Limits


if TYPE_CHECKING:
    from datetime import datetime


class S3Reader:
    """:class:`~airflow_provider_ha.storage.file_store.ObjectReader` on S3.

    :param uri: ``s3://bucket/prefix``.
    :param options: Endpoint and credentials; defaults come from boto3's chain.
    :param limits: Limits of a request.
    :raises ConfigurationError: The options cannot be used.
    """

    def __init__(self, uri: str, options: S3Options, limits: S3Limits | None = None) -> None:
        self._bucket = Bucket(uri, options, limits or S3Limits())

    @property
    def uri(self) -> str:
        """URI of the root."""
        return self._bucket.uri

    def list(self, prefix: str) -> Iterator[ListedObject]:
        """Yield every object whose key begins with *prefix*, a page per request.

        :raises StorageUnavailableError: The listing could not be completed.
        """
        for key, item in self._bucket.objects(prefix):
            yield ListedObject(key, item["Size"], item["ETag"], int(item["LastModified"].timestamp() * 1000))

    def read(self, key: str) -> bytes:
        """Return the bytes of an object.

        :raises ObjectMissingError: The object does not exist.
        :raises StorageUnavailableError: It could not be read.
        """
        return self._got(key)

    def read_range(self, item: ListedObject, offset: int, length: int) -> bytes:
        """Return *length* bytes from *offset*; fewer at the end of the object.

        :raises ObjectMissingError: The object does not exist.
        :raises StorageUnavailableError: It could not be read, or was replaced since it was listed.
        """
        end = min(offset + length, item.size)
        return self._got(item.key, Range=f"bytes={offset}-{end - 1}", IfMatch=item.etag) if offset < end else b""

    def _got(self, key: str, **asked: str) -> bytes:
        bucket = self._bucket
        try:
            with bucket.call(key, "read") as deadline:
                return deadline.repeat(lambda: whole(self._get(key, asked)["Body"], deadline), when=is_cut)
        except StorageUnavailableError as error:
            if code_of(error) not in REFUSED:
                raise
            raise StorageUnavailableError(
                f"object {key!r} in {self.uri} was replaced while it was read", next_step="Try again"
            ) from error

    def _get(self, key: str, asked: dict[str, Any]) -> Any:
        return self._bucket.client.get_object(Bucket=self._bucket.name, Key=self._bucket.foreign_key(key), **asked)


WRITER = "spark-ha-writer"
"""Name of the user metadata that identifies the writer of an object; the component in the JVM writes it too."""


class S3FileStore:
    """:class:`~airflow_provider_ha.storage.file_store.FileStore` on S3. Safe in several threads; not across a fork.

    :param uri: ``s3://bucket/prefix``.
    :param options: Endpoint and credentials; defaults come from boto3's chain.
    :param limits: Limits of a call.
    :raises ConfigurationError: The options cannot be used.
    """

    def __init__(self, uri: str, options: S3Options, limits: S3Limits | None = None) -> None:
        self._bucket = Bucket(uri, options, limits or S3Limits())

    @property
    def uri(self) -> str:
        """URI of the root."""
        return self._bucket.uri

    def list(self, prefix: str) -> Iterator[StoredFile]:
        """Yield every object below *prefix*, in the order of their keys, a page per request.

        :raises StorageUnavailableError: The listing could not be completed.
        """
        for key, item in self._bucket.listed(check_file_prefix(prefix)):
            if not key.endswith("/"):  # a marker of a directory, as S3A leaves it
                yield StoredFile(key, item["Size"], _milliseconds(item["LastModified"]), item["ETag"].strip('"'))

    def prepared(self, prefix: str) -> Iterator[StoredFile]:
        """Yield nothing: objects appear atomically, and parts of interrupted uploads are not objects."""
        check_file_prefix(prefix)
        yield from ()

    def names(self, prefix: str) -> Sequence[str]:
        """Return the names directly below *prefix*, sorted.

        :raises StorageUnavailableError: They could not be listed.
        """
        return sorted(set(self._bucket.names(check_file_prefix(prefix))))

    def info(self, key: str) -> StoredFile | None:
        """Return the metadata of an object; ``None`` when it is missing.

        :raises StorageUnavailableError: It could not be read.
        """
        try:
            head = self._head(key)
        except ObjectMissingError:
            return None
        return StoredFile(key, head["ContentLength"], _milliseconds(head["LastModified"]), head["ETag"].strip('"'))

    def read(self, key: str) -> bytes:
        """Return the bytes of an object.

        :raises ObjectMissingError: The object does not exist.
        :raises StorageUnavailableError: It could not be read.
        """
        return self._got(key)

    def read_range(self, file: StoredFile, offset: int, length: int) -> bytes:
        """Return *length* bytes from *offset*; fewer at the end of the object.

        :raises ObjectMissingError: The object does not exist.
        :raises StorageUnavailableError: It could not be read, or was replaced since it was listed.
        """
        end = min(offset + length, file.size)
        if offset >= end:
            return b""
        try:
            return self._got(file.key, Range=f"bytes={offset}-{end - 1}", IfMatch=f'"{file.etag}"')
        except StorageUnavailableError as error:
            if code_of(error) not in REFUSED:
                raise
            raise StorageUnavailableError(
                f"object {file.key!r} in {self.uri} was replaced while it was read", next_step="Try again"
            ) from error

    def create(self, key: str, data: bytes, *, writer: str = "") -> None:
        """Write an object that must not exist yet.

        :raises ObjectExistsError: The object exists, written by another *writer*.
        :raises StorageUnavailableError: The outcome is unknown.
        """
        try:
            with self._bucket.call(key, "created") as deadline:
                deadline.repeat(lambda: self._put(key, data, writer), when=is_conflict)
        except StorageUnavailableError as error:
            if code_of(error) not in REFUSED:
                raise
            if not self._is_of(key, writer):
                raise ObjectExistsError(f"object {key!r} exists already in {self.uri}") from error

    def write(self, key: str, data: bytes) -> None:
        """Write an object, replacing an existing one.

        :raises StorageUnavailableError: The outcome is unknown.
        """
        with self._bucket.call(key, "written"):
            self._bucket.client.put_object(Bucket=self._bucket.name, Key=self._name(key), Body=data)

    def upload(self, key: str, source: Path) -> None:
        """Write an object from a file of this host, in parts when it is large.

        :raises StorageUnavailableError: The outcome is unknown.
        """
        with self._bucket.translated(key, f"uploaded from {source}"):
            self._bucket.client.upload_file(str(source), self._bucket.name, self._name(key))

    def delete(self, key: str) -> None:
        """Remove an object; a missing one is not an error.

        :raises StorageUnavailableError: The outcome is unknown.
        """
        with self._bucket.call(key, "removed"):
            self._bucket.client.delete_object(Bucket=self._bucket.name, Key=self._name(key))

    def check_lasting(self) -> None:
        """Check that no rule of the bucket removes or archives objects below the root.

        :raises ConfigurationError: A rule removes or archives them.
        :raises StorageUnavailableError: The bucket does not answer.
        """
        self._bucket.check_lasting()

    def _put(self, key: str, data: bytes, writer: str) -> None:
        said = {WRITER: writer} if writer else {}
        self._bucket.client.put_object(
            Bucket=self._bucket.name, Key=self._name(key), Body=data, IfNoneMatch="*", Metadata=said
        )

    def _is_of(self, key: str, writer: str) -> bool:
        """Return whether *writer* wrote the object found by a conditional write. It may become visible with a delay."""
        if not writer:
            return False
        with self._bucket.call(key, "looked up") as deadline:
            found = deadline.repeat(lambda: self._asked(key), when=is_absent)
        return bool(found["Metadata"].get(WRITER) == writer)

    def _head(self, key: str) -> Any:
        with self._bucket.call(key, "looked up"):
            return self._asked(key)

    def _asked(self, key: str) -> Any:
        return self._bucket.client.head_object(Bucket=self._bucket.name, Key=self._name(key))

    def _got(self, key: str, **asked: str) -> bytes:
        with self._bucket.call(key, "read") as deadline:
            return deadline.repeat(lambda: whole(self._get(key, asked)["Body"], deadline), when=is_cut)

    def _get(self, key: str, asked: dict[str, Any]) -> Any:
        return self._bucket.client.get_object(Bucket=self._bucket.name, Key=self._name(key), **asked)

    def _name(self, key: str) -> str:
        return self._bucket.foreign_key(check_file_key(key))


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
