"""WebHDFS client: requests to the active name node, transfer of bytes, and translation of errors.

This module makes all retries: it tries another name node, pauses, and ends at one deadline. A retried request may have
been executed before, so each operation that is not idempotent defines how it recognises its own success.

Invariant: a response is never matched to another request. A redirect is followed only where the protocol defines one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import urllib3
from tenacity import Retrying, retry_if_exception, wait_random_exponential

from airflow_provider_ha.errors import StorageUnavailableError
from airflow_provider_ha.storage.limits import check_held


ABSENT = frozenset({"FileNotFoundException"})
"""The object is missing."""
EXISTS = frozenset({"FileAlreadyExistsException"})
"""A rename without overwriting found a file."""
NOT_EMPTY = frozenset({"PathIsNotEmptyDirectoryException"})
"""Removal of a directory that is not empty."""
ELSEWHERE = frozenset({"StandbyException", "RetriableException", "RetryStartFileException"})
"""Another name node is active, or this one is becoming active: retry."""

_IPC = b"HTTP request to a Hadoop IPC port"
# A plain IOException in Java: these texts come from the data node, or from the name node to Java and WebHDFS.
_NO_DATA_NODE = ("are bad. Aborting", "minReplication nodes", "Failed to find datanode", "No space left")
_QUOTAS = frozenset({"NSQuotaExceededException", "DSQuotaExceededException", "QuotaByStorageTypeExceededException"})
_STEPS = (
    (frozenset({"SafeModeException"}), "Wait until HDFS has left safe mode: `hdfs dfsadmin -safemode get` shows why"),
    (_QUOTAS, "Raise the quota of the directory (`hdfs dfs -count -q` shows it), or remove files there"),
    (
        frozenset({"AccessControlException"}),
        "Give this user the directory (`hdfs dfs -chown`), or name another user as hdfs_user",
    ),
    (
        frozenset({"SecurityException", "AuthenticationException", "AuthorizationException"}),
        "Check how this cluster authenticates; only simple authentication is supported (see the page about HDFS)",
    ),
    (
        frozenset({"NoDataNode"}),
        "Check that data nodes are up and have space: `hdfs dfsadmin -report`",
    ),
    (ELSEWHERE, "Name every name node as hdfs_namenodes, and check that one is active"),
)
_DEFAULT = "Check the address of the name node's web server, hdfs_namenodes, and that HDFS is up"


@dataclass(frozen=True, slots=True)
class HdfsRefusal:
    """Error response of HDFS.

    :param kind: Hadoop's simple class name of its exception; empty when the response is not Hadoop's.
    :param message: First line of the message.
    :param server: Server that sent it.
    """

    kind: str
    message: str
    server: str


class HdfsRefusalError(Exception):
    """Operation that HDFS refused."""

    def __init__(self, refusal: HdfsRefusal) -> None:
        self.refusal = refusal
        super().__init__(refusal.message)


def refusal_of(status: int, body: bytes, server: str) -> HdfsRefusal:
    """Return the error in a response of a name node or data node."""
    try:
        remote = json.loads(body)["RemoteException"]
        kind, message = str(remote["exception"]), str(remote["message"])
    except (ValueError, KeyError, TypeError):
        return HdfsRefusal("", _foreign(status, body), server)
    if "(is not a directory)" in message:  # a name below a file: Hadoop reports it as an access error
        kind = "FileNotFoundException"
    return HdfsRefusal(_meant(kind, message), message.partition("\n")[0], server)


def _meant(kind: str, message: str) -> str:
    """Return the specific class behind a general one: some servers wrap an exception and name it in the text."""
    if any(words in message for words in _NO_DATA_NODE):
        return "NoDataNode"
    for kinds, _ in _STEPS:
        for known in kinds:
            if known in message or (known == "SafeModeException" and "safe mode" in message.lower()):
                return known
    return kind


def _foreign(status: int, body: bytes) -> str:
    if _IPC in body:
        return "this is the port of Hadoop's own protocol, not that of the web server"
    if status in (401, 407):
        return f"it requires authentication (status {status})"
    return f"it answers with status {status}, and not as WebHDFS does"


def unavailable(what: str, refusal: HdfsRefusal) -> StorageUnavailableError:
    """Return this package's error for a refusal.

    :param what: Failure and its object, as the beginning of a sentence.
    """
    step = next((step for kinds, step in _STEPS if refusal.kind in kinds), _DEFAULT)
    if "authentication" in refusal.message:
        step = _STEPS[3][1]
    return StorageUnavailableError(f"{what}: {refusal.message.rstrip('.')} ({refusal.server})", next_step=step)


def unreached(server: str, error: Exception) -> HdfsRefusal:
    """Return the error for a server without a response."""
    if isinstance(error, urllib3.exceptions.NameResolutionError):
        return HdfsRefusal("", "its host name is not known here", server)
    if isinstance(error, urllib3.exceptions.TimeoutError) and not isinstance(
        error, urllib3.exceptions.ConnectTimeoutError
    ):
        return HdfsRefusal("", "no answer came in time", server)
    reason = str(error).rpartition(": ")[2] or type(error).__name__
    return HdfsRefusal("", f"it cannot be reached ({reason})", server)


T = TypeVar("T")
_PREFIX = "/webhdfs/v1"
_BYTES = {"Content-Type": "application/octet-stream"}
_GOOD = frozenset({200, 201})
_REDIRECT = 307
_CONNECTIONS = 16  # connections kept open, because a listing uses several threads


@dataclass(frozen=True, slots=True)
class HdfsLimits:
    """Bounds of a call.

    :param connect_timeout: Seconds to connect, per attempt.
    :param read_timeout: Seconds without a byte of the answer, per attempt.
    :param attempts: Rounds over all name nodes at most.
    :param deadline: Seconds for a call; an attempt starts only while there is time to finish it.
    """

    connect_timeout: float = 5.0
    read_timeout: float = 30.0
    attempts: int = 5
    deadline: float = 120.0


class NoAnswerError(HdfsRefusalError):
    """Operation without an answer, which may have been executed."""


class WebHdfs:
    """Client of HDFS. Thread-safe; not across a fork.

    :param namenodes: URLs of the name nodes' web servers: ``http://nn1:9870``.
    :param user: Name of the user, sent by simple authentication.
    :param limits: Limits of a call.
    :param ca_file: CA certificates for ``https`` servers; the system's by default.
    """

    def __init__(self, namenodes: Sequence[str], user: str, limits: HdfsLimits, *, ca_file: str | None = None) -> None:
        self._namenodes = tuple(url.rstrip("/") for url in namenodes)
        self._user = user
        self._limits = limits
        self._active = 0
        self._pool = urllib3.PoolManager(
            retries=False,
            timeout=urllib3.Timeout(connect=limits.connect_timeout, read=limits.read_timeout),
            maxsize=_CONNECTIONS,
            ca_certs=ca_file,
        )

    def ask(self, method: str, path: str, operation: str, **parameters: str) -> Mapping[str, Any]:
        """Return the JSON of an operation that a name node executes; empty without a response body.

        :raises HdfsRefusalError: The operation was refused.
        :raises NoAnswerError: The outcome is unknown.
        """
        return self._repeated(lambda url: self._json(self._sent(method, url, path, operation, parameters), url))

    def ask_once_done(
        self, method: str, path: str, operation: str, *, done: Callable[[HdfsRefusalError], bool], **parameters: str
    ) -> Mapping[str, Any]:
        """Return the JSON of an operation that is not idempotent; otherwise as :meth:`ask`.

        :param done: Whether a refusal of a retry means that an earlier request was executed.
        """
        lost = False

        def send(url: str) -> Mapping[str, Any]:
            nonlocal lost
            try:
                return self._json(self._sent(method, url, path, operation, parameters), url)
            except NoAnswerError:
                lost = True
                raise
            except HdfsRefusalError as error:
                if lost and error.refusal.kind not in ELSEWHERE and done(error):
                    return {}
                raise

        return self._repeated(send)

    def put(self, path: str, data: bytes | Path) -> None:
        """Write a whole file; replaces an existing one, and readers can see it half-written.

        :raises HdfsRefusalError: It was refused.
        :raises NoAnswerError: The outcome is unknown.
        """

        def send(url: str) -> None:
            self._put_bytes(self._redirected("PUT", url, path, "CREATE", {"overwrite": "true"}), data)

        self._repeated(send)

    def get(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        """Return bytes of a file.

        :raises HdfsRefusalError: It was refused, for example for a missing file.
        :raises NoAnswerError: No server answered in time.
        """
        some = {"offset": str(offset)} | ({} if length is None else {"length": str(length)})

        def send(url: str) -> bytes:
            place = self._redirected("GET", url, path, "OPEN", some)
            return self._whole(self._request("GET", place), place)

        return self._repeated(send)

    def _repeated(self, send: Callable[[str], T]) -> T:
        """Return the result of *send* for the active name node; all name nodes are tried before a pause."""
        limits = self._limits
        end = time.monotonic() + limits.deadline

        def is_late(_: object) -> bool:
            return time.monotonic() + limits.connect_timeout + limits.read_timeout > end

        return Retrying(
            retry=retry_if_exception(_passes),
            stop=lambda state: state.attempt_number >= limits.attempts or is_late(state),
            wait=wait_random_exponential(multiplier=0.2, max=10.0),
            reraise=True,
        )(lambda: self._round(send))

    def _round(self, send: Callable[[str], T]) -> T:
        first = self._active
        for step in range(len(self._namenodes)):
            number = (first + step) % len(self._namenodes)
            try:
                done = send(self._namenodes[number])
            except HdfsRefusalError as error:
                if not _passes(error):
                    self._active = number
                    raise
                failure = error
                continue
            self._active = number
            return done
        raise failure

    def _sent(
        self, method: str, url: str, path: str, operation: str, parameters: Mapping[str, str]
    ) -> urllib3.BaseHTTPResponse:
        asked = {"op": operation, "user.name": self._user, **parameters}
        return self._request(method, f"{url}{_PREFIX}{quote(path)}?{urlencode(asked)}")

    def _redirected(self, method: str, url: str, path: str, operation: str, parameters: Mapping[str, str]) -> str:
        answer = self._sent(method, url, path, operation, parameters)
        place = answer.headers.get("Location")
        if answer.status != _REDIRECT or not place:
            raise HdfsRefusalError(refusal_of(answer.status, self._whole_body(answer, url), _server(url)))
        answer.drain_conn()
        return place

    def _put_bytes(self, place: str, data: bytes | Path) -> None:
        if isinstance(data, bytes):
            self._whole(self._request("PUT", place, data), place)
            return
        with data.open("rb") as file:
            self._whole(self._request("PUT", place, file, length=data.stat().st_size), place)

    def _request(self, method: str, url: str, body: Any = None, length: int | None = None) -> urllib3.BaseHTTPResponse:
        headers = dict(_BYTES) if length is None else {**_BYTES, "Content-Length": str(length)}
        try:
            return self._pool.request(
                method, url, body=body, headers=headers, redirect=False, preload_content=False, decode_content=False
            )
        except urllib3.exceptions.HTTPError as error:
            raise NoAnswerError(unreached(_server(url), error)) from error

    def _whole(self, answer: urllib3.BaseHTTPResponse, url: str) -> bytes:
        body = self._whole_body(answer, url)
        if answer.status not in _GOOD:
            raise HdfsRefusalError(refusal_of(answer.status, body, _server(url)))
        return body

    def _whole_body(self, answer: urllib3.BaseHTTPResponse, url: str) -> bytes:
        try:
            check_held(int(answer.headers.get("Content-Length") or 0))
            return answer.read()
        except (urllib3.exceptions.HTTPError, ValueError) as error:
            raise NoAnswerError(unreached(_server(url), error)) from error
        finally:
            answer.release_conn()

    def _json(self, answer: urllib3.BaseHTTPResponse, url: str) -> Mapping[str, Any]:
        body = self._whole(answer, url)
        try:
            found = json.loads(body) if body else {}
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise HdfsRefusalError(HdfsRefusal("", "it does not answer as WebHDFS does", _server(url)))
        return found


def _passes(error: BaseException) -> bool:
    """Return whether a retry, or another server, may help."""
    if isinstance(error, NoAnswerError):
        return True
    return isinstance(error, HdfsRefusalError) and error.refusal.kind in ELSEWHERE


def _server(url: str) -> str:
    """Return the server of a URL without its query, which may hold a token."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
