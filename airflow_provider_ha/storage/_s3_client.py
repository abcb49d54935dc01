"""Boto3 client of a store, with a deadline over its retries.

botocore retries and backs off itself (its adaptive mode), but it counts attempts, not time. Two of botocore's events
suffice to limit the time too: the event before a call, and the one before a retry.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from airflow_provider_ha.config import S3Options
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.storage.limits import Deadline, DeadlineError, S3Limits


if TYPE_CHECKING:
    from boto3.session import Session
    from botocore.loaders import Loader
    from mypy_boto3_s3 import S3Client

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
    """Assert that options can be used, and named in messages and logs.

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
