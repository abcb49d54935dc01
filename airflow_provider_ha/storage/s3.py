"""Objects in S3, or in any store with its protocol, and their server-side copies.

Invariant: a conditional create is one request with ``If-None-Match: *``. When its response is lost, botocore repeats it
and then meets its own first attempt; so after a retry, a refusal is read back and compared before it is believed
(contract 2). Every call ends within one deadline (``limits``); in a transfer in parts each request has its own.

A copy to a target that must not exist is made in parts, because many servers silently ignore a condition on
``CopyObject``. The request that completes an upload in parts has the same condition as any other write.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_ha.clock import new_id
from airflow_provider_ha.config import S3Options
from airflow_provider_ha.errors import ObjectExistsError, ObjectMissingError
from airflow_provider_ha.storage._s3_bucket import Bucket
from airflow_provider_ha.storage._s3_responses import (
    ABSENT,
    REFUSED,
    code_of,
    handled,
    info_of,
    is_conflict,
    is_cut,
    was_repeated,
    whole,
)
from airflow_provider_ha.storage.durable import flush, flush_directory, make_directories, prepared
from airflow_provider_ha.storage.keys import check_copy
from airflow_provider_ha.storage.limits import Deadline, S3Limits
from airflow_provider_ha.storage.object_store import ObjectInfo
from airflow_provider_ha.storage.roots import MARKER, Roots, probe


if TYPE_CHECKING:
    from boto3.s3.transfer import TransferConfig
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import CompletedPartTypeDef, HeadObjectOutputTypeDef


_log = logging.getLogger(__name__)

_MARK = "spark-ha-copy"
_AT_ONCE = 4  # concurrent parts of a server-side copy


@dataclass(frozen=True)
class ServerSideCopy:
    """Copy inside one bucket. Both names are complete keys of the bucket.

    :param head: S3's metadata of the source; the copy has exactly these bytes.
    """

    client: S3Client
    limits: S3Limits
    bucket: str
    source: str
    target: str
    head: HeadObjectOutputTypeDef

    def whole(self) -> None:
        """Copy in one request, replacing the target."""
        self.client.copy_object(
            Bucket=self.bucket,
            Key=self.target,
            CopySource={"Bucket": self.bucket, "Key": self.source},
            CopySourceIfMatch=self.head["ETag"],
        )

    def in_parts(self, *, if_absent: bool) -> None:
        """Copy in parts. The target appears only when it is complete; a failed copy removes its parts.

        :raises ObjectExistsError: The target exists, and *if_absent* is set.
        """
        mark = new_id()
        started = self.client.create_multipart_upload(Bucket=self.bucket, Key=self.target, Metadata={_MARK: mark})
        upload = started["UploadId"]
        try:
            self._complete(upload, self._parts(upload), mark, if_absent=if_absent)
        except BaseException:
            self._abort(upload)
            raise

    def _parts(self, upload: str) -> list[CompletedPartTypeDef]:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            pending = [
                pool.submit(self._part, upload, number, span)
                for number, span in enumerate(ranges(self.head["ContentLength"], self.limits.copy_part), start=1)
            ]
            try:
                return [part.result() for part in pending]
            except BaseException:
                # Awaited: a part that ends after the abort would never be removed, and would cost money.
                pool.shutdown(cancel_futures=True)
                raise

    def _part(self, upload: str, number: int, span: str) -> CompletedPartTypeDef:
        copied = self.client.upload_part_copy(
            Bucket=self.bucket,
            Key=self.target,
            UploadId=upload,
            PartNumber=number,
            CopySource={"Bucket": self.bucket, "Key": self.source},
            CopySourceRange=span,
            CopySourceIfMatch=self.head["ETag"],
        )
        return {"PartNumber": number, "ETag": copied["CopyPartResult"]["ETag"]}

    def _complete(self, upload: str, parts: list[CompletedPartTypeDef], mark: str, *, if_absent: bool) -> None:
        from botocore.exceptions import ClientError  # boto3 is slow to import

        try:
            if if_absent:
                self.client.complete_multipart_upload(
                    Bucket=self.bucket,
                    Key=self.target,
                    UploadId=upload,
                    MultipartUpload={"Parts": parts},
                    IfNoneMatch="*",
                )
            else:
                self.client.complete_multipart_upload(
                    Bucket=self.bucket, Key=self.target, UploadId=upload, MultipartUpload={"Parts": parts}
                )
        except ClientError as error:
            # A retry after a successful first attempt finds its own object, or its upload gone.
            if was_repeated(error) and self._is_marked(mark):
                return
            if code_of(error) in REFUSED:
                raise ObjectExistsError(f"object {self.target!r} exists already in bucket {self.bucket!r}") from error
            raise

    def _is_marked(self, mark: str) -> bool:
        from botocore.exceptions import ClientError  # boto3 is slow to import

        try:
            return self.client.head_object(Bucket=self.bucket, Key=self.target)["Metadata"].get(_MARK) == mark
        except ClientError as error:
            if code_of(error) in ABSENT:
                return False
            raise

    def _abort(self, upload: str) -> None:
        try:
            self.client.abort_multipart_upload(Bucket=self.bucket, Key=self.target, UploadId=upload)
        except handled() as error:
            reason = code_of(error) or type(error).__name__
            if reason != "NoSuchUpload":
                _log.warning(
                    "parts of upload %s stay in bucket %s until its rule removes them: %s", upload, self.bucket, reason
                )


def ranges(size: int, part: int) -> Iterator[str]:
    """Yield the byte ranges of the parts of *size* bytes in S3's syntax; both ends are included."""
    for start in range(0, size, part):
        yield f"bytes={start}-{min(start + part, size) - 1}"


class S3Store:
    """:class:`~airflow_provider_ha.storage.object_store.ObjectStore` on S3. Thread-safe; not across a fork.

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

    def read(self, key: str) -> bytes:
        """Return the bytes of an object.

        :raises ObjectMissingError: The object does not exist.
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
        """Settle the roots once: a prefix of a bucket does not disappear as a mount does."""
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
