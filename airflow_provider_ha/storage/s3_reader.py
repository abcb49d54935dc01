"""Reading objects of S3 that another program wrote: Spark through S3A, or a copy of a directory that a user uploaded.

Invariant: every request reads at most the requested range, within one deadline; an interrupted read is retried. An
object that is read in several requests is one object: each request names the listed version.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from airflow_provider_ha.config import S3Options
from airflow_provider_ha.errors import StorageUnavailableError
from airflow_provider_ha.storage._s3_bucket import Bucket
from airflow_provider_ha.storage._s3_errors import REFUSED, code_of, is_cut
from airflow_provider_ha.storage._s3_objects import whole
from airflow_provider_ha.storage.limits import S3Limits
from airflow_provider_ha.storage.reading import Listed


class S3Reader:
    """An :class:`~airflow_provider_ha.storage.reading.ObjectReader` on S3.

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

    def list(self, prefix: str) -> Iterator[Listed]:
        """Yield every object whose key begins with *prefix*, a page per request.

        :raises StorageUnavailableError: The listing could not be completed.
        """
        for key, item in self._bucket.objects(prefix):
            yield Listed(key, item["Size"], item["ETag"], int(item["LastModified"].timestamp() * 1000))

    def read(self, key: str) -> bytes:
        """Return the bytes of an object.

        :raises ObjectMissingError: It is not there.
        :raises StorageUnavailableError: It could not be read.
        """
        return self._got(key)

    def read_range(self, item: Listed, offset: int, length: int) -> bytes:
        """Return *length* bytes from *offset*; fewer at the end of the object.

        :raises ObjectMissingError: It is not there.
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
