"""Objects in S3, or in anything that speaks it. The only module that knows boto3.

Invariant: a conditional create is one request with ``If-None-Match: *``. When its answer is lost, botocore repeats
it and then meets its own first attempt; so a refusal after a repetition is read back and compared before it is believed
(contract 2).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from airflow_provider_ha.config import S3Options
from airflow_provider_ha.errors import (
    ObjectExistsError,
    ObjectMissingError,
    StorageError,
    StorageUnavailableError,
)
from airflow_provider_ha.storage.durable import make_directories, prepared
from airflow_provider_ha.storage.key_names import check_key, check_prefix
from airflow_provider_ha.storage.probe import probe
from airflow_provider_ha.storage.store import ObjectInfo


if TYPE_CHECKING:
    from botocore.exceptions import ClientError
    from mypy_boto3_s3 import S3Client


CONNECT_TIMEOUT = 5.0  # seconds, per attempt
READ_TIMEOUT = 30.0  # seconds, per attempt
ATTEMPTS = 5
_ABSENT = frozenset({"NoSuchKey", "404", "NotFound"})  # the answer to HEAD has no body, so it has no better code
# 412: it exists. 409: another conditional write of the same key is under way, and one of the two wins.
_REFUSED = frozenset({"PreconditionFailed", "412", "ConditionalRequestConflict"})


class S3Store:
    """An :class:`~airflow_provider_ha.storage.store.ObjectStore` on S3. Safe in several threads; not across a fork.

    :param uri: ``s3://bucket/prefix``.
    :param options: Endpoint and credentials; what is left out comes from boto3's own chain.
    """

    def __init__(self, uri: str, options: S3Options) -> None:
        parts = urlsplit(uri)
        self._uri = uri.rstrip("/")
        self._bucket = parts.netloc
        self._prefix = unquote(parts.path).strip("/")
        self._options = options

    @property
    def uri(self) -> str:
        """URI of the root."""
        return self._uri

    def read(self, key: str) -> bytes:
        """Return the bytes of an object.

        :raises ObjectMissingError: It is not there.
        :raises StorageUnavailableError: It could not be read.
        """
        with self._translated(key, "read"):
            return self._client.get_object(Bucket=self._bucket, Key=self._key(key))["Body"].read()

    def create(self, key: str, data: bytes) -> None:
        """Write an object that must not exist yet.

        :raises ObjectExistsError: It exists.
        :raises StorageUnavailableError: It could not be written, or it is not known whether it was.
        """
        from botocore.exceptions import ClientError  # boto3 is slow to import

        with self._translated(key, "created"):
            try:
                self._client.put_object(Bucket=self._bucket, Key=self._key(key), Body=data, IfNoneMatch="*")
            except ClientError as error:
                if _code(error) not in _REFUSED:
                    raise
                if not (_was_repeated(error) and self.read(key) == data):
                    raise ObjectExistsError(f"object {key!r} exists already in {self.uri}") from error

    def write(self, key: str, data: bytes) -> None:
        """Write an object, replacing one that exists.

        :raises StorageUnavailableError: It could not be written.
        """
        with self._translated(key, "written"):
            self._client.put_object(Bucket=self._bucket, Key=self._key(key), Body=data)

    def upload(self, key: str, source: Path) -> None:
        """Write an object from a local file, in parts when it is large; replaces one that exists.

        :raises StorageUnavailableError: It could not be written.
        """
        with self._translated(key, f"uploaded from {source}"):
            self._client.upload_file(str(source), self._bucket, self._key(key))

    def download(self, key: str, target: Path) -> None:
        """Copy an object to a local file that appears complete or not at all.

        :raises ObjectMissingError: It is not there.
        :raises StorageUnavailableError: It could not be read.
        """
        with self._translated(key, f"downloaded to {target}"):
            make_directories(target.parent)
            with prepared(target) as (temporary, stream):
                self._client.download_fileobj(self._bucket, self._key(key), stream)
                stream.flush()
                temporary.replace(target)

    def info(self, key: str) -> ObjectInfo | None:
        """Return what is known about an object, or ``None`` when it is not there.

        :raises StorageUnavailableError: It could not be found out.
        """
        try:
            with self._translated(key, "looked up"):
                head = self._client.head_object(Bucket=self._bucket, Key=self._key(key))
        except ObjectMissingError:
            return None
        return ObjectInfo(key, head["ContentLength"], head["LastModified"])

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """Yield every object whose key begins with *prefix*, in the order of their keys.

        :raises StorageUnavailableError: The listing could not be completed: a part is never passed off as the whole.
        """
        root = f"{self._prefix}/" if self._prefix else ""
        pages = self._client.get_paginator("list_objects_v2")
        with self._translated(prefix, "listed"):
            for page in pages.paginate(Bucket=self._bucket, Prefix=root + check_prefix(prefix)):
                for item in page.get("Contents", ()):
                    yield ObjectInfo(item["Key"].removeprefix(root), item["Size"], item["LastModified"])

    def delete(self, key: str) -> None:
        """Remove an object; one that is not there is no error.

        :raises StorageUnavailableError: It could not be removed.
        """
        with self._translated(key, "removed"):
            self._client.delete_object(Bucket=self._bucket, Key=self._key(key))

    def touch(self, key: str) -> None:
        """Renew the modification time of an object by copying it onto itself.

        :raises ObjectMissingError: It is not there.
        :raises StorageUnavailableError: It could not be found out.
        """
        name = self._key(key)
        with self._translated(key, "touched"):
            # S3 refuses a copy onto itself that changes nothing; replacing the metadata counts as a change. The managed
            # copy does it in parts above 5 GB.
            self._client.copy(
                {"Bucket": self._bucket, "Key": name}, self._bucket, name, ExtraArgs={"MetadataDirective": "REPLACE"}
            )

    def check_writable(self) -> None:
        """Write, read and remove a probe.

        :raises StorageUnavailableError: With the reason and what to do.
        """
        probe(self)

    @cached_property
    def _client(self) -> S3Client:
        import boto3  # slow to import; a DAG file that names this class must not pay for it
        from botocore.config import Config  # the same

        options = self._options
        return boto3.session.Session().client(
            "s3",
            endpoint_url=options.endpoint_url,
            region_name=options.region,
            aws_access_key_id=options.access_key.get_secret_value() if options.access_key else None,
            aws_secret_access_key=options.secret_key.get_secret_value() if options.secret_key else None,
            config=Config(
                connect_timeout=CONNECT_TIMEOUT,
                read_timeout=READ_TIMEOUT,
                retries={"mode": "adaptive", "total_max_attempts": ATTEMPTS},
                s3={"addressing_style": "path" if options.path_style else "auto"},
                # Not every server knows the trailing checksums that are the default; what counts has our own digest.
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
            ),
        )

    def _key(self, key: str) -> str:
        return f"{self._prefix}/{check_key(key)}" if self._prefix else check_key(key)

    def _check_bucket(self) -> None:
        """See that the bucket is there: HEAD says 404 for its objects as well when it is not."""
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            self._client.head_bucket(Bucket=self._bucket)
        except (BotoCoreError, ClientError) as error:
            raise StorageUnavailableError(
                f"bucket {self._bucket!r} of {self.uri} cannot be reached: {error}",
                next_step="Check its name, the endpoint and the credentials",
            ) from error

    @contextmanager
    def _translated(self, key: str, verb: str) -> Iterator[None]:
        """Turn boto3's errors into ours: the one place."""
        from boto3.exceptions import Boto3Error  # boto3 is slow to import
        from botocore.exceptions import BotoCoreError, ClientError  # the same

        try:
            yield
        except StorageError:
            raise
        except (BotoCoreError, Boto3Error, ClientError, OSError) as error:
            if isinstance(error, ClientError) and _code(error) in _ABSENT:
                self._check_bucket()
                raise ObjectMissingError(f"object {key!r} is not in {self.uri}") from error
            raise StorageUnavailableError(
                f"object {key!r} in {self.uri} could not be {verb}: {error}",
                next_step="Check the endpoint, the bucket, the credentials and what they permit",
            ) from error


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _was_repeated(error: ClientError) -> bool:
    metadata = error.response.get("ResponseMetadata")
    return bool(metadata and metadata.get("RetryAttempts", 0))
