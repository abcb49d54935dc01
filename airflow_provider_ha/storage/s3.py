"""Objects in S3, or in any store with its protocol. Only this module and the ``_s3_*`` modules use boto3.

Invariant: a conditional create is one request with ``If-None-Match: *``. When its response is lost, botocore repeats it
and then meets its own first attempt; so after a retry, a refusal is read back and compared before it is believed
(contract 2). Every call ends within one deadline (``limits``); in a transfer in parts each request has one.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_ha.config import S3Options
from airflow_provider_ha.errors import ObjectExistsError, ObjectMissingError
from airflow_provider_ha.storage._s3_bucket import Bucket
from airflow_provider_ha.storage._s3_copy import ServerSideCopy
from airflow_provider_ha.storage._s3_errors import REFUSED, code_of, is_conflict, is_cut, was_repeated
from airflow_provider_ha.storage._s3_objects import info_of, whole
from airflow_provider_ha.storage.durable import flush, flush_directory, make_directories, prepared
from airflow_provider_ha.storage.key_names import check_copy
from airflow_provider_ha.storage.limits import Deadline, S3Limits
from airflow_provider_ha.storage.marker import MARKER, Roots
from airflow_provider_ha.storage.probe import probe
from airflow_provider_ha.storage.store import ObjectInfo


if TYPE_CHECKING:
    from boto3.s3.transfer import TransferConfig


class S3Store:
    """An :class:`~airflow_provider_ha.storage.store.ObjectStore` on S3. Thread-safe; not across a fork.

    :param uri: ``s3://bucket/prefix``.
    :param options: Endpoint and credentials; defaults come from boto3's chain.
    :param limits: Limits of a call.
    :param roots: The roots of its cluster; settled before the first write.
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

    def read(self, key: str) -> bytes:
        """Return the bytes of an object.

        :raises ObjectMissingError: It is not there.
        :raises StorageUnavailableError: It could not be read.
        """
        with self._bucket.call(key, "read") as deadline:
            return deadline.repeat(lambda: self._body(key, deadline), when=is_cut)

    def create(self, key: str, data: bytes) -> None:
        """Write an object that must not exist yet.

        :raises ObjectExistsError: It exists.
        :raises StorageUnavailableError: It could not be written, or the outcome is unknown.
        """
        from botocore.exceptions import ClientError  # boto3 is slow to import

        self._ensure_settled()
        repeated = False

        def attempt() -> None:
            nonlocal repeated
            try:
                self._bucket.client.put_object(
                    Bucket=self._bucket.name, Key=self._bucket.key(key), Body=data, IfNoneMatch="*"
                )
            except ClientError as error:
                repeated = repeated or was_repeated(error)
                if code_of(error) not in REFUSED:
                    raise
                if not (repeated and self.read(key) == data):
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

        :raises ObjectMissingError: It is not there.
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

    def copy(self, source: str, target: str, *, if_absent: bool = False, if_match: str | None = None) -> ObjectInfo:
        """Let the server copy an object, in parts when it is large or when the target must be new.

        :param if_absent: The target must not exist yet; otherwise it is replaced.
        :param if_match: Etag that the source must have, from a listing.
        :raises ObjectMissingError: The source is missing or was replaced.
        :raises ObjectExistsError: The target exists, and *if_absent* is set.
        :raises StorageUnavailableError: It could not be copied, its source changed, or it has another size.
        """
        check_copy(source, target)
        self._ensure_settled()
        bucket = self._bucket
        with bucket.translated(source, f"copied to {target!r}"):
            head = bucket.head(source)
            if if_match is not None and head["ETag"] != if_match:
                raise ObjectMissingError(f"object {source!r} in {self.uri} was replaced since it was listed")
            size = head["ContentLength"]
            work = ServerSideCopy(
                bucket.client, bucket.limits, bucket.name, bucket.key(source), bucket.key(target), head
            )
            if size == 0 and if_absent:
                self.create(target, b"")  # an upload in parts has at least one byte
            elif if_absent or size > bucket.limits.copy_whole:
                work.in_parts(if_absent=if_absent)
            else:
                work.whole()
            copied = info_of(target, bucket.head(target))
            if copied.size != size:
                raise OSError(f"the copy has {copied.size} bytes instead of {size}")
            return copied

    def info(self, key: str) -> ObjectInfo | None:
        """Return the metadata of an object; ``None`` when it is missing.

        :raises StorageUnavailableError: It could not be read.
        """
        try:
            with self._bucket.call(key, "looked up"):
                return info_of(key, self._bucket.head(key))
        except ObjectMissingError:
            return None

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """Yield every object whose key begins with *prefix*, in the order of their keys, except the marker of a root.

        :raises StorageUnavailableError: The listing could not be completed: a part is never passed off as the whole.
        """
        for key, item in self._bucket.objects(prefix):
            if key != MARKER:
                yield ObjectInfo(key, item["Size"], item["LastModified"])

    def delete(self, key: str) -> None:
        """Remove an object; a missing one is not an error.

        :raises StorageUnavailableError: It could not be removed.
        """
        with self._bucket.call(key, "removed"):
            self._bucket.client.delete_object(Bucket=self._bucket.name, Key=self._bucket.key(key))

    def touch(self, key: str) -> None:
        """Renew the modification time of an object by copying it onto itself.

        :raises ObjectMissingError: It is not there.
        :raises StorageUnavailableError: It could not be found out.
        """
        name = self._bucket.key(key)
        with self._bucket.translated(key, "touched"):
            # S3 refuses a copy onto itself that changes nothing; replacing the metadata counts as a change.
            self._bucket.client.copy(
                {"Bucket": self._bucket.name, "Key": name},
                self._bucket.name,
                name,
                ExtraArgs={"MetadataDirective": "REPLACE"},
                Config=_in_parts_from(self._bucket.limits.copy_whole, self._bucket.limits.copy_part),
            )

    def check_writable(self) -> None:
        """Write, read and remove a probe, and check that exactly one simultaneous creation wins.

        :raises ConfigurationError: A rule of the bucket removes objects below the root.
        :raises StorageUnavailableError: With the reason and the next step.
        """
        self._bucket.check_lasting()
        probe(self)

    def _ensure_settled(self) -> None:
        """Look once: a prefix of a bucket does not go away as a mount does."""
        if self._roots is not None:
            self._roots.settle()
            self._roots = None

    @cached_property
    def _transfer(self) -> TransferConfig:
        return _in_parts_from(self._bucket.limits.part_size, self._bucket.limits.part_size)

    def _body(self, key: str, deadline: Deadline) -> bytes:
        got = self._bucket.client.get_object(Bucket=self._bucket.name, Key=self._bucket.key(key))
        return whole(got["Body"], deadline)


def _in_parts_from(size: int, part: int) -> TransferConfig:
    from boto3.s3.transfer import TransferConfig  # boto3 is slow to import

    return TransferConfig(multipart_threshold=size, multipart_chunksize=part)
