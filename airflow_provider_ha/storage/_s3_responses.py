"""Conversion of boto3's responses and errors to the types and errors of this package.

Invariant: texts never contain the access key or the secret key, even if the client library or the server put it there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Protocol

from airflow_provider_ha.config import S3Options
from airflow_provider_ha.errors import StorageUnavailableError
from airflow_provider_ha.storage.limits import Deadline, DeadlineError, check_held
from airflow_provider_ha.storage.object_store import ObjectInfo
from airflow_provider_ha.storage.outage import FULL_STEP, is_full


if TYPE_CHECKING:
    from botocore.exceptions import ClientError
    from mypy_boto3_s3.type_defs import HeadObjectOutputTypeDef, ObjectTypeDef


_PIECE = 64 * 1024  # bytes of a body between two checks of the deadline


class Body(Protocol):
    """Body of a boto3 response."""

    def iter_chunks(self, chunk_size: int) -> Iterable[bytes]: ...

    def close(self) -> None: ...


def info_of(key: str, head: HeadObjectOutputTypeDef) -> ObjectInfo:
    """Return the metadata in a response to HEAD."""
    return ObjectInfo(key, head["ContentLength"], head["LastModified"], head["ETag"].strip('"'))


def listed(key: str, item: ObjectTypeDef) -> ObjectInfo:
    """Return the metadata in an entry of a listing."""
    return ObjectInfo(key, item["Size"], item["LastModified"], item["ETag"].strip('"'))


def whole(body: Body, deadline: Deadline) -> bytes:
    """Return the complete body of a response.

    :raises DeadlineError: The body was too slow.
    :raises OSError: The body has more bytes than the limit.
    """
    pieces = bytearray()
    try:
        for piece in body.iter_chunks(_PIECE):
            pieces += piece
            check_held(len(pieces))
            deadline.check_body(len(pieces))
    finally:
        body.close()  # a completely read body has returned to the pool before
    return bytes(pieces)


NO_SUCH_KEY = "NoSuchKey"
"""Code of a missing object in an existing bucket; a missing bucket has another code."""
ABSENT = frozenset({NO_SUCH_KEY, "404", "NotFound"})
"""Codes of a missing object. A response to HEAD has no body, so its status is the only code."""
REFUSED = frozenset({"PreconditionFailed", "412"})
"""Codes of a conditional write that found an object."""

_IN_CONFLICT = frozenset({"ConditionalRequestConflict", "OperationAborted"})
_BAD_CREDENTIALS = frozenset({
    "AuthorizationHeaderMalformed",
    "ExpiredToken",
    "InvalidAccessKeyId",
    "InvalidToken",
    "PermanentRedirect",
    "SignatureDoesNotMatch",
    "TokenRefreshRequired",
})  # fmt: skip
_FORBIDDEN = frozenset({"AccessDenied", "403", "Forbidden", "AllAccessDisabled"})
_THROTTLED = frozenset({"SlowDown", "503", "ServiceUnavailable", "RequestLimitExceeded", "Throttling"})
_SKEWED = frozenset({"RequestTimeTooSkewed", "RequestExpired"})
# Each server has its own code, status or text for a full store: some look like a refusal or a fault.
_FULL = re.compile(
    r"(?:storage|disk|drive|device|bucket)\w*full|insufficient\s?(?:storage|capacity|space)|no space left"
    r"|quota\w*exceeded|\bquota\b.*\bexceeded|over\s?quota|\b507\b",
    re.IGNORECASE,
)
_STEPS = (
    (_BAD_CREDENTIALS, "Check the access key, the secret key and the region, and whether they have expired"),
    (_FORBIDDEN, "Check the credentials, and that they permit this action on the bucket and the prefix"),
    (_THROTTLED, "Wait: the store throttles requests; if it continues, raise its limits or use another prefix"),
    (_SKEWED, "Correct the clock of this host"),
    (frozenset({"NoSuchBucket"}), "Check the name of the bucket and the endpoint; create the bucket"),
)


def handled() -> tuple[type[Exception], ...]:
    """Return the exceptions of boto3 and its libraries; a function because the import is slow."""
    from boto3.exceptions import Boto3Error
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.parsers import ResponseParserError
    from s3transfer.exceptions import RetriesExceededError, S3CopyFailedError  # noqa: PLC0415  # part of boto3, equally slow

    of_transfers = (RetriesExceededError, S3CopyFailedError)
    return (BotoCoreError, Boto3Error, ClientError, ResponseParserError, *of_transfers, DeadlineError, OSError)


def is_cut(error: BaseException) -> bool:
    """Return whether a response body broke off or stalled: a retry is right, and the library does not retry."""
    from botocore.exceptions import IncompleteReadError, ReadTimeoutError, ResponseStreamingError

    return isinstance(error, (IncompleteReadError, ReadTimeoutError, ResponseStreamingError))


def is_conflict(error: BaseException) -> bool:
    """Return whether another write or removal of the same key was running: the outcome is unknown, so retry."""
    return code_of(error) in _IN_CONFLICT


def is_absent(error: BaseException) -> bool:
    """Return whether the object is missing."""
    return code_of(error) in ABSENT


def code_of(error: BaseException | None) -> str:
    """Return S3's code of an error, or of its cause; empty without a code."""
    from botocore.exceptions import ClientError

    for link in _chain(error):
        if isinstance(link, ClientError):
            return str(link.response.get("Error", {}).get("Code", ""))
        if isinstance(link, DeadlineError):
            return link.code
    return ""


def was_repeated(error: ClientError) -> bool:
    """Return whether the refused request was a retry: an earlier one may have succeeded."""
    metadata = error.response.get("ResponseMetadata")
    return bool(metadata and metadata.get("RetryAttempts", 0))


def unavailable(what: str, endpoint: str, error: Exception, options: S3Options) -> StorageUnavailableError:
    """Convert an exception; it becomes the cause, unless its text contains a key.

    :param what: Failure and its object, as the beginning of a sentence.
    """
    keys = [key.get_secret_value() for key in (options.access_key, options.secret_key) if key is not None]
    translated = StorageUnavailableError(
        f"{what}: {_without(keys, _reason(error))} (endpoint {endpoint})", next_step=_next_step(error)
    )
    harmless = not any(key in str(link) for link in _chain(error) for key in keys if key)
    translated.__cause__ = error if harmless else None
    translated.__suppress_context__ = True
    return translated


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _without(keys: list[str], text: str) -> str:
    for key in filter(None, keys):
        text = text.replace(key, "***")
    return text


def _reason(error: Exception) -> str:
    last = getattr(error, "last_exception", None)  # of an aborted download
    return (str(last or error) or type(error).__name__).rstrip(".")


def _says_full(error: Exception) -> bool:
    """Return whether the store refused to write because it is full."""
    from botocore.exceptions import ClientError

    for link in _chain(error):
        if isinstance(link, ClientError):
            told, metadata = link.response.get("Error", {}), link.response.get("ResponseMetadata")
            status = metadata.get("HTTPStatusCode", "") if metadata else ""
            return _FULL.search(f"{told.get('Code', '')} {told.get('Message', '')} {status}") is not None
    return False


def _next_step(error: Exception) -> str:
    if is_full(error):  # of this host, which receives the download
        return FULL_STEP
    if _says_full(error):
        return (
            "Free space in the store, or raise its quota; a driver continues, and takes its next checkpoint on schedule"
        )
    code = code_of(error)
    for codes, step in _STEPS:
        if code in codes:
            return step
    return "Check the endpoint, the bucket, and the permissions of the credentials"
