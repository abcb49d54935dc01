"""Access to a bucket below one prefix: boto3 client with deadlines, keys, errors and lifecycle rules.

botocore retries and backs off itself (its adaptive mode), but it counts attempts, not time. Two of botocore's events
suffice to limit the time too: the event before a call, and the event before a retry.

Lifecycle rules must not remove objects by age: a RocksDB table file whose rows stay unchanged is never written again,
but is needed as long as the job exists.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from airflow_provider_ha.config import S3Options
from airflow_provider_ha.errors import ConfigurationError, ObjectMissingError, StorageError, StorageUnavailableError
from airflow_provider_ha.storage._s3_responses import ABSENT, NO_SUCH_KEY, code_of, handled, unavailable
from airflow_provider_ha.storage.keys import check_object_key, check_prefix
from airflow_provider_ha.storage.limits import Deadline, DeadlineError, S3Limits
from airflow_provider_ha.uris import split


if TYPE_CHECKING:
    from boto3.session import Session
    from botocore.loaders import Loader
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import HeadObjectOutputTypeDef, ListObjectsV2OutputTypeDef, ObjectTypeDef


_CONTEXT_KEY = "spark_ha_deadline"
_TOO_MANY = 429
_SERVER_ERROR = 500


class Deadlines:
    """Deadlines of requests: a request uses the deadline of its thread's current call, or a new one.

    A transfer in parts sends from threads of its library; there each request has a separate deadline.
    """

    def __init__(self, limits: S3Limits) -> None:
        self._limits = limits
        self._thread = threading.local()

    @contextmanager
    def call(self) -> Iterator[Deadline]:
        """Share one deadline among all requests of this thread in the block; an inner call shares the outer one."""
        outer: Deadline | None = getattr(self._thread, "deadline", None)
        self._thread.deadline = outer or Deadline(self._limits)
        try:
            yield self._thread.deadline
        finally:
            self._thread.deadline = outer

    def attach(self, client: S3Client) -> None:
        """Apply the deadlines to the retries of a client."""
        client.meta.events.register("before-call.s3", self._begin)
        client.meta.events.register_last("needs-retry.s3", self._judge)

    def _begin(self, context: dict[str, Any], **_: object) -> None:
        context[_CONTEXT_KEY] = getattr(self._thread, "deadline", None) or Deadline(self._limits)

    def _judge(
        self,
        request_dict: dict[str, Any],
        response: Any,
        caught_exception: Exception | None,
        attempts: int,
        **_: object,
    ) -> None:
        if caught_exception is not None and attempts >= self._limits.attempts:
            # A download in parts would begin with all attempts again, each time with a new deadline.
            raise DeadlineError(f"no answer to {attempts} attempts; the last: {caught_exception}") from caught_exception
        status = 0 if response is None else response[0].status_code
        answered = 0 < status < _SERVER_ERROR and status != _TOO_MANY
        if not answered and not request_dict["context"][_CONTEXT_KEY].allows_attempt():
            code = "" if response is None else str(response[1].get("Error", {}).get("Code", ""))
            last = caught_exception or f"status {status} {code}".rstrip()
            raise DeadlineError(f"no good answer within {self._limits.deadline:g} s; the last: {last}", code)


def make_client(options: S3Options, limits: S3Limits, deadlines: Deadlines) -> S3Client:
    """Return a client that keeps *deadlines*.

    :raises ConfigurationError: The endpoint is not a URL.
    """
    from botocore.config import Config  # slow to import; a DAG file that names the store must not pay for it

    config = Config(
        connect_timeout=limits.connect_timeout,
        read_timeout=limits.read_timeout,
        retries={"mode": "adaptive", "total_max_attempts": limits.attempts},
        s3={"addressing_style": "path" if options.path_style else "auto"},
        # Not every server supports the default trailing checksums; important objects have our own digest.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    try:
        client = _session().client(
            "s3",
            endpoint_url=options.endpoint_url,
            region_name=options.region,
            aws_access_key_id=options.access_key.get_secret_value() if options.access_key else None,
            aws_secret_access_key=options.secret_key.get_secret_value() if options.secret_key else None,
            config=config,
        )
    except ValueError as error:
        raise ConfigurationError(
            f"S3 endpoint {options.endpoint_url!r} is not a URL",
            next_step="Write it as http://host:port or https://host",
        ) from error
    deadlines.attach(client)
    return client


def _session() -> Session:
    """Return the session of a store: sessions are not thread-safe, but they share the service descriptions."""
    import boto3
    import botocore.session

    core = botocore.session.Session()
    session = boto3.session.Session(botocore_session=core)
    core.register_component("data_loader", _descriptions())
    core.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=parse_time)
    return session


def parse_time(value: str) -> datetime:
    """Parse a timestamp, at a tenth of botocore's cost, which was half of the time of a listing.

    :raises ValueError: The text is not a timestamp.
    """
    from botocore.utils import parse_timestamp

    if value.endswith("Z"):  # as in listings; Python 3.10 does not know the letter
        with suppress(ValueError):
            return datetime.fromisoformat(f"{value[:-1]}+00:00")
    return parse_timestamp(value)


@cache
def _descriptions() -> Loader:
    """Return the loader of botocore's S3 descriptions: parsing them takes ten times as long as the rest of a client."""
    import botocore.session

    loader: Loader = botocore.session.Session().get_component("data_loader")
    return loader


def check_options(options: S3Options) -> None:
    """Check that options can be used, and named in messages and logs.

    :raises ConfigurationError: The endpoint URL contains credentials, or a key is surrounded by whitespace.
    """
    _, at, host = (options.endpoint_url or "").rpartition("@")
    if at:
        raise ConfigurationError(
            f"the URL of S3 endpoint {host!r} holds credentials", next_step="Give them as access key and secret key"
        )
    for name, key in (("access key", options.access_key), ("secret key", options.secret_key)):
        text = key.get_secret_value() if key is not None else ""
        if any(letter.isspace() or not letter.isprintable() for letter in text):
            raise ConfigurationError(
                f"the {name} for S3 has a blank or a line end in it", next_step="Paste it again, without"
            )


_NONE = frozenset({"NoSuchLifecycleConfiguration", "NoSuchLifecycle"})
# For servers without such rules, and roles that may not read them: the check needs no more permissions than jobs.
_NOT_TOLD = frozenset({"NotImplemented", "MethodNotAllowed", "AccessDenied", "403", "501", "405"})
_ARCHIVES = frozenset({"GLACIER", "DEEP_ARCHIVE"})  # objects there must be restored before they can be read


def check_rules(client: S3Client, bucket: str, prefix: str) -> None:
    """Check that no rule of a bucket removes or archives objects below a prefix, if the bucket shows its rules.

    :param prefix: Prefix of the keys; empty, or without a final slash.
    :raises ConfigurationError: A rule removes or archives them.
    """
    try:
        rules = client.get_bucket_lifecycle_configuration(Bucket=bucket).get("Rules", [])
    except handled() as error:
        if code_of(error) in _NONE | _NOT_TOLD:
            return
        raise
    for rule in rules:
        does = effect(rule, f"{prefix}/" if prefix else "")
        if does:
            raise ConfigurationError(
                f"rule {rule.get('ID', '')!r} of bucket {bucket!r} {does} below s3://{bucket}/{prefix}",
                next_step="Limit the rule to another prefix, or remove it: files of a job are needed at any age",
            )


def effect(rule: Mapping[str, Any], prefix: str) -> str:
    """Describe the effect of a rule on objects below a prefix, as a predicate; empty without an effect. Pure.

    :param rule: As S3 returns it.
    :param prefix: With a final slash, or empty.
    """
    if rule.get("Status") != "Enabled" or not _reaches(rule, prefix):
        return ""
    expiration = rule.get("Expiration", {})
    if expiration.keys() & {"Days", "Date"}:
        return f"expires objects {_when(expiration)}"
    for move in rule.get("Transitions", ()):
        if move.get("StorageClass") in _ARCHIVES:
            return f"moves objects to {move['StorageClass']} {_when(move)}"
    return ""


def _reaches(rule: Mapping[str, Any], prefix: str) -> bool:
    condition = rule.get("Filter", {})
    both = condition.get("And", {})
    if "Tag" in condition or both.get("Tags"):
        return False  # this package's objects have no tags
    place = rule.get("Prefix") or condition.get("Prefix") or both.get("Prefix") or ""
    return prefix.startswith(place) or place.startswith(prefix)


def _when(part: Mapping[str, Any]) -> str:
    return f"after {part['Days']} days" if "Days" in part else f"on {part.get('Date')}"


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
        return self._root + check_object_key(key)

    def head(self, key: str) -> HeadObjectOutputTypeDef:
        """Return S3's metadata of an object."""
        return self.client.head_object(Bucket=self.name, Key=self.key(key))

    def objects(self, prefix: str) -> Iterator[tuple[str, ObjectTypeDef]]:
        """Yield the key in the store and the listed entry of all objects, page after page.

        :raises StorageUnavailableError: A page could not be read.
        """
        for page in self._pages(check_prefix(prefix), delimiter=""):
            for item in page.get("Contents", ()):
                yield item["Key"].removeprefix(self._root), item

    def names(self, prefix: str) -> Iterator[str]:
        """Yield the names directly below a prefix with a final slash: of objects and of common prefixes.

        :raises StorageUnavailableError: A page could not be read.
        """
        for page in self._pages(check_prefix(prefix, directory=True), delimiter="/"):
            keys = [item["Key"] for item in page.get("Contents", ())]
            keys += [item["Prefix"].removesuffix("/") for item in page.get("CommonPrefixes", ())]
            yield from filter(None, (key.removeprefix(self._root + prefix) for key in keys))

    def check_lasting(self) -> None:
        """Check that the bucket's rules neither remove nor archive objects below the prefix.

        :raises ConfigurationError: A rule removes or archives them.
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
        """Translate errors as :meth:`translated`, with one deadline for all requests, retries and pauses inside."""
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
        client: S3Client | None = self.__dict__.get("client")  # the client does not exist if its creation failed
        endpoint = client.meta.endpoint_url if client is not None else self._options.endpoint_url or "AWS"
        return unavailable(what, endpoint, error, self._options)
