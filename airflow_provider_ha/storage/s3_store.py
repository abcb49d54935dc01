"""Objects in S3, or in any store with its protocol.

Invariants:

* A conditional create is one request with ``If-None-Match: *``. When its response is lost, botocore repeats it and then
  meets its own first attempt. So after a retry a refusal is believed only if the object's metadata name another writer;
  its bytes prove nothing (contract 2).
* Every call ends within one deadline (``limits``); in a transfer in parts each request has its own. An interrupted read
  is retried. An object that is read in several requests is one object: each request names the listed version.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_ha.clock import new_id
from airflow_provider_ha.config import S3Options
from airflow_provider_ha.errors import ObjectExistsError, ObjectMissingError, StorageUnavailableError
from airflow_provider_ha.storage._s3_bucket import Bucket
from airflow_provider_ha.storage._s3_responses import (
    REFUSED,
    code_of,
    handled,
    info_of,
    is_absent,
    is_conflict,
    is_cut,
    listed,
    was_repeated,
    whole,
)
from airflow_provider_ha.storage.durable import flush, flush_directory, make_directories, prepared
from airflow_provider_ha.storage.keys import check_prefix
from airflow_provider_ha.storage.limits import S3Limits
from airflow_provider_ha.storage.object_store import ObjectInfo
from airflow_provider_ha.storage.roots import Roots, probe


if TYPE_CHECKING:
    from boto3.s3.transfer import TransferConfig
    from mypy_boto3_s3.type_defs import CompletedMultipartUploadTypeDef, CopySourceTypeDef


WRITER = "spark-ha-writer"
"""Name of the user metadata that identifies the writer of an object; the component in the JVM writes it too."""


class S3Store:
    """``ObjectStore`` on S3. Thread-safe; not across a fork.

    :param uri: ``s3://bucket/prefix``.
    :param options: Endpoint and credentials; defaults come from boto3's chain.
    :param limits: Limits of a call.
    :param roots: Roots of its cluster; settled before the first write.
    :raises ConfigurationError: The options cannot be used.
    """

    def __init__(
        self,
        uri: str,
        options: S3Options,
        limits: S3Limits | None = None,
        *,
        roots: Roots | None = None,
    ) -> None:
        self._bucket = Bucket(uri, options, limits or S3Limits())
        self._roots = roots

    @property
    def uri(self) -> str:
        """URI of the root."""
        return self._bucket.uri

    def list(self, prefix: str, *, markers: bool = False) -> Iterator[ObjectInfo]:
        """Yield every object whose key begins with *prefix*, in the order of their keys, a page per request.

        :param markers: Also yield the markers of directories, as S3A leaves them.
        :raises StorageUnavailableError: The listing could not be completed: a part is never passed off as the whole.
        """
        for key, item in self._bucket.objects(prefix):
            if markers or not key.endswith("/"):
                yield listed(key, item)

    def prepared(self, prefix: str) -> Iterator[ObjectInfo]:
        """Yield nothing: objects appear atomically, and parts of interrupted uploads are not objects."""
        check_prefix(prefix)
        yield from ()

    def names(self, prefix: str) -> Sequence[str]:
        """Return the names directly below *prefix*, sorted.

        :raises StorageUnavailableError: They could not be listed.
        """
        return sorted(set(self._bucket.names(prefix)))

    def info(self, key: str) -> ObjectInfo | None:
        """Return the metadata of an object; ``None`` when it is missing.

        :raises StorageUnavailableError: It could not be read.
        """
        try:
            with self._bucket.call(key, "looked up"):
                return info_of(key, self._bucket.head(key))
        except ObjectMissingError:
            return None

    def read(self, key: str) -> bytes:
        """Return the bytes of an object.

        :raises ObjectMissingError: The object does not exist.
        :raises StorageUnavailableError: It could not be read.
        """
        return self._body(key)

    def read_range(self, item: ObjectInfo, offset: int, length: int) -> bytes:
        """Return *length* bytes from *offset*; fewer at the end of the object.

        :raises ObjectMissingError: The object does not exist.
        :raises StorageUnavailableError: It could not be read, or was replaced since it was listed.
        """
        end = min(offset + length, item.size)
        if offset >= end:
            return b""
        try:
            return self._body(item.key, Range=f"bytes={offset}-{end - 1}", IfMatch=f'"{item.etag}"')
        except StorageUnavailableError as error:
            if code_of(error) not in REFUSED:
                raise
            raise StorageUnavailableError(
                f"object {item.key!r} in {self.uri} was replaced while it was read", next_step="Try again"
            ) from error

    def create(self, key: str, data: bytes, *, writer: str = "") -> None:
        """Write an object that must not exist yet.

        :raises ObjectExistsError: It exists, written by another attempt.
        :raises StorageUnavailableError: It could not be written, or the outcome is unknown.
        """
        from botocore.exceptions import ClientError  # boto3 is slow to import

        self._ensure_settled()
        mark, repeated = writer or new_id(), bool(writer)

        def attempt() -> None:
            nonlocal repeated
            try:
                self._bucket.client.put_object(
                    Bucket=self._bucket.name,
                    Key=self._bucket.key(key),
                    Body=data,
                    IfNoneMatch="*",
                    Metadata={WRITER: mark},
                )
            except ClientError as error:
                repeated = repeated or was_repeated(error)
                if code_of(error) not in REFUSED:
                    raise
                if not (repeated and self._is_of(key, mark)):
                    raise ObjectExistsError(f"object {key!r} exists already in {self.uri}") from error

        with self._bucket.call(key, "created") as deadline:
            deadline.repeat(attempt, when=is_conflict)

    def write(self, key: str, data: bytes) -> None:
        """Write an object, replacing an existing one.

        :raises StorageUnavailableError: It could not be written.
        """
        self._ensure_settled()
        with self._bucket.call(key, "written"):
            self._bucket.client.put_object(Bucket=self._bucket.name, Key=self._bucket.key(key), Body=data)

    def upload(self, key: str, source: Path) -> None:
        """Write an object from a local file, in parts when it is large; replaces an existing one.

        A failed upload leaves no parts, unless the store cannot be reached to remove them.

        :raises StorageUnavailableError: It could not be written.
        """
        self._ensure_settled()
        with self._bucket.translated(key, f"uploaded from {source}"):
            self._bucket.client.upload_file(
                str(source), self._bucket.name, self._bucket.key(key), Config=self._transfer
            )

    def download(self, key: str, target: Path) -> None:
        """Copy an object to a local file that appears complete or not at all.

        :raises ObjectMissingError: The object does not exist.
        :raises StorageUnavailableError: It could not be read.
        """
        with self._bucket.translated(key, f"downloaded to {target}"):
            make_directories(target.parent)
            with prepared(target) as (temporary, stream):
                self._bucket.client.download_fileobj(
                    self._bucket.name, self._bucket.key(key), stream, Config=self._transfer
                )
                flush(stream)
                temporary.replace(target)
            flush_directory(target.parent)

    def copy(self, source: ObjectInfo, target: str) -> None:
        """Let the server copy an object as it was listed, in parts when it is large; replaces an existing one.

        :raises ObjectMissingError: The source is missing or was replaced.
        :raises StorageUnavailableError: It could not be copied, its source changed, or it has another size.
        """
        self._ensure_settled()
        bucket = self._bucket
        origin: CopySourceTypeDef = {"Bucket": bucket.name, "Key": bucket.key(source.key)}
        name = bucket.key(target)
        with bucket.translated(source.key, f"copied to {target!r}"):
            head = bucket.head(source.key)
            if info_of(source.key, head).etag != source.etag:
                raise ObjectMissingError(f"object {source.key!r} in {self.uri} was replaced since it was listed")
            if source.size > bucket.limits.copy_whole:
                unchanged = {"CopySourceIfMatch": head["ETag"]}
                bucket.client.copy(origin, bucket.name, name, ExtraArgs=unchanged, Config=self._copying)
            else:
                bucket.client.copy_object(
                    Bucket=bucket.name, Key=name, CopySource=origin, CopySourceIfMatch=head["ETag"]
                )
            copied = bucket.head(target)["ContentLength"]
            if copied != source.size:
                raise OSError(f"the copy has {copied} bytes instead of {source.size}")

    def touch(self, key: str) -> None:
        """Renew the modification time of an object by copying it onto itself.

        :raises ObjectMissingError: The object does not exist.
        :raises StorageUnavailableError: The storage did not answer.
        """
        name = self._bucket.key(key)
        with self._bucket.translated(key, "touched"):
            # S3 refuses a copy onto itself that changes nothing; replacing the metadata counts as a change.
            self._bucket.client.copy(
                {"Bucket": self._bucket.name, "Key": name},
                self._bucket.name,
                name,
                ExtraArgs={"MetadataDirective": "REPLACE"},
                Config=self._copying,
            )

    def delete(self, key: str) -> None:
        """Remove an object; a missing one is not an error.

        :raises StorageUnavailableError: It could not be removed.
        """
        with self._bucket.call(key, "removed"):
            self._bucket.client.delete_object(Bucket=self._bucket.name, Key=self._bucket.key(key))

    def check_writable(self) -> None:
        """Write, read and remove a probe, and check that exactly one simultaneous creation wins.

        :raises ConfigurationError: A rule of the bucket removes objects below the root.
        :raises StorageUnavailableError: With the reason and the next step.
        """
        self._bucket.check_lasting()
        probe(self, self._create_in_parts)

    def _create_in_parts(self, key: str) -> None:
        """Create an object as S3A creates a large one: the condition is in the request that completes the upload.

        :raises ObjectExistsError: It exists.
        """
        client = self._bucket.client
        upload: dict[str, Any] = {"Bucket": self._bucket.name, "Key": self._bucket.key(key)}
        with self._bucket.call(key, "created in parts"):
            upload["UploadId"] = client.create_multipart_upload(**upload)["UploadId"]
            try:
                etag = client.upload_part(**upload, PartNumber=1, Body=b"part")["ETag"]
                parts: CompletedMultipartUploadTypeDef = {"Parts": [{"PartNumber": 1, "ETag": etag}]}
                client.complete_multipart_upload(**upload, MultipartUpload=parts, IfNoneMatch="*")
            except handled() as error:
                with suppress(*handled()):
                    client.abort_multipart_upload(**upload)
                if code_of(error) in REFUSED:
                    raise ObjectExistsError(f"object {key!r} exists already in {self.uri}") from error
                raise

    def _ensure_settled(self) -> None:
        """Settle the roots once: a prefix of a bucket does not disappear as a mount does."""
        if self._roots is not None:
            self._roots.settle()
            self._roots = None

    def _is_of(self, key: str, writer: str) -> bool:
        """Return whether *writer* wrote the object found by a conditional write. It may become visible with a delay."""
        with self._bucket.call(key, "looked up") as deadline:
            found = deadline.repeat(lambda: self._bucket.head(key), when=is_absent)
        return found["Metadata"].get(WRITER) == writer

    def _body(self, key: str, **asked: Any) -> bytes:
        bucket = self._bucket

        def get() -> bytes:
            return whole(bucket.client.get_object(Bucket=bucket.name, Key=bucket.key(key), **asked)["Body"], deadline)

        with bucket.call(key, "read") as deadline:
            return deadline.repeat(get, when=is_cut)

    @cached_property
    def _transfer(self) -> TransferConfig:
        return _in_parts_from(self._bucket.limits.part_size, self._bucket.limits.part_size)

    @cached_property
    def _copying(self) -> TransferConfig:
        return _in_parts_from(self._bucket.limits.copy_whole, self._bucket.limits.copy_part)


def _in_parts_from(size: int, part: int) -> TransferConfig:
    from boto3.s3.transfer import TransferConfig  # boto3 is slow to import

    return TransferConfig(multipart_threshold=size, multipart_chunksize=part)
