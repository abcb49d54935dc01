"""Access to the part of a bucket below one prefix: keys, client, and translation of errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow_provider_ha.config import S3Options
from airflow_provider_ha.errors import ObjectMissingError, StorageError, StorageUnavailableError
from airflow_provider_ha.storage._s3_client import Deadlines, check_options, make_client
from airflow_provider_ha.storage._s3_errors import ABSENT, NO_SUCH_KEY, code_of, handled, unavailable
from airflow_provider_ha.storage._s3_lifecycle import check_rules
from airflow_provider_ha.storage.key_names import check_key, check_prefix
from airflow_provider_ha.storage.limits import Deadline, S3Limits
from airflow_provider_ha.uris import split


if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import HeadObjectOutputTypeDef, ListObjectsV2OutputTypeDef, ObjectTypeDef


class Bucket:
    """Access of a store to its bucket. Thread-safe.

    :param uri: ``s3://bucket/prefix``.
    :param options: Endpoint and credentials.
    :param limits: Limits of a call.
    :raises ConfigurationError: The options cannot be used.
    """

    def __init__(self, uri: str, options: S3Options, limits: S3Limits) -> None:
        check_options(options)
        place = split(uri)
        self.uri = uri.rstrip("/")
        self.name = place.authority
        self.limits = limits
        self._prefix = place.path.strip("/")
        self._options = options
        self._deadlines = Deadlines(limits)

    @cached_property
    def client(self) -> S3Client:
        """boto3's client, created on first use."""
        return make_client(self._options, self.limits, self._deadlines)

    def key(self, key: str) -> str:
        """Return the bucket's key for a key of the store.

        :raises ConfigurationError: The key is not valid.
        """
        return f"{self._prefix}/{check_key(key)}" if self._prefix else check_key(key)

    def foreign_key(self, key: str) -> str:
        """Return the bucket's key for a listed object whose name another program chose."""
        return f"{self._prefix}/{key}" if self._prefix else key

    def head(self, key: str) -> HeadObjectOutputTypeDef:
        """Return S3's metadata of an object, with its stored checksum."""
        return self.client.head_object(Bucket=self.name, Key=self.key(key), ChecksumMode="ENABLED")

    def objects(self, prefix: str) -> Iterator[tuple[str, ObjectTypeDef]]:
        """Yield the key in the store and the listed entry of each object, page after page.

        :raises StorageUnavailableError: A page could not be read.
        """
        yield from self.listed(check_prefix(prefix))

    def listed(self, prefix: str) -> Iterator[tuple[str, ObjectTypeDef]]:
        """Yield the same as :meth:`objects`, for any prefix: another program chose its names."""
        for page in self._pages(prefix, delimiter=""):
            for item in page.get("Contents", ()):
                yield item["Key"].removeprefix(self._root), item

    def names(self, prefix: str) -> Iterator[str]:
        """Yield the names directly below any prefix with a final slash: of objects and of common prefixes.

        :raises StorageUnavailableError: A page could not be read.
        """
        for page in self._pages(prefix, delimiter="/"):
            keys = [item["Key"] for item in page.get("Contents", ())]
            keys += [item["Prefix"].removesuffix("/") for item in page.get("CommonPrefixes", ())]
            yield from filter(None, (key.removeprefix(self._root + prefix) for key in keys))

    def check_lasting(self) -> None:
        """Assert that the bucket's rules neither remove nor archive objects below the prefix.

        :raises ConfigurationError: A rule does.
        :raises StorageUnavailableError: The bucket does not answer.
        """
        with self.call("", "asked for its rules"):
            check_rules(self.client, self.name, self._prefix)

    @property
    def _root(self) -> str:
        return f"{self._prefix}/" if self._prefix else ""

    def _pages(self, prefix: str, *, delimiter: str) -> Iterator[ListObjectsV2OutputTypeDef]:
        token = ""
        while True:
            with self.call(prefix, "listed"):
                page = self._page(self._root + prefix, token, delimiter)
            yield page
            if not page.get("IsTruncated"):
                return
            token = page["NextContinuationToken"]

    def _page(self, prefix: str, token: str, delimiter: str) -> ListObjectsV2OutputTypeDef:
        asked: dict[str, Any] = {"Delimiter": delimiter} if delimiter else {}
        if token:
            asked["ContinuationToken"] = token
        page = self.client.list_objects_v2(Bucket=self.name, Prefix=prefix, **asked)
        if page.get("IsTruncated") and page.get("NextContinuationToken", token) == token:
            raise OSError("the server reports a further page without its start")
        return page

    @contextmanager
    def call(self, key: str, verb: str) -> Iterator[Deadline]:
        """Like :meth:`translated`, with one deadline for all requests inside, including retries and pauses."""
        with self.translated(key, verb), self._deadlines.call() as deadline:
            yield deadline

    @contextmanager
    def translated(self, key: str, verb: str) -> Iterator[None]:
        """Translate the errors of boto3 and its libraries; the only place for it."""
        try:
            yield
        except StorageError:
            raise
        except handled() as error:
            if code_of(error) in ABSENT:
                if code_of(error) != NO_SUCH_KEY:
                    self._check_bucket()
                raise ObjectMissingError(f"object {key!r} is not in {self.uri}") from error
            what = f"object {key!r} in {self.uri}" if key else self.uri
            raise self._unavailable(f"{what} could not be {verb}", error)  # noqa: B904  # has its cause

    def _check_bucket(self) -> None:
        """Check that the bucket exists: for its objects, a HEAD response without a body is a 404 in both cases."""
        try:
            self.client.head_bucket(Bucket=self.name)
        except handled() as error:
            raise self._unavailable(f"bucket {self.name!r} of {self.uri} cannot be reached", error)  # noqa: B904  # the same

    def _unavailable(self, what: str, error: Exception) -> StorageUnavailableError:
        client: S3Client | None = self.__dict__.get("client")  # not made when making it is what failed
        endpoint = client.meta.endpoint_url if client is not None else self._options.endpoint_url or "AWS"
        return unavailable(what, endpoint, error, self._options)
