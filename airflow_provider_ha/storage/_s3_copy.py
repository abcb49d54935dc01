"""Server-side copies in S3: in one request, or in parts when the object is large or the target must be new.

Parts are used for a new target because many servers silently ignore a condition on ``CopyObject``. The request that
completes an upload in parts has the same condition as any other write.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_ha.clock import new_id
from airflow_provider_ha.errors import ObjectExistsError
from airflow_provider_ha.storage._s3_errors import ABSENT, REFUSED, code_of, handled, was_repeated
from airflow_provider_ha.storage.limits import S3Limits


if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import CompletedPartTypeDef, HeadObjectOutputTypeDef

_log = logging.getLogger(__name__)

_MARK = "spark-ha-copy"
_AT_ONCE = 4  # concurrent parts of a server-side copy


@dataclass(frozen=True)
class ServerSideCopy:
    """A copy inside one bucket. Both names are complete keys of the bucket.

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
        """Copy in parts. The target appears when it is complete; a failed copy removes its parts.

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
    """Yield the byte ranges of the parts of *size* bytes, in S3's words; both ends are included."""
    for start in range(0, size, part):
        yield f"bytes={start}-{min(start + part, size) - 1}"
