"""Errors of HDFS in this package's terms: event, server and next step. All translations are here."""

from __future__ import annotations

import json
from dataclasses import dataclass

import urllib3

from airflow_provider_ha.errors import StorageUnavailableError


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
    (frozenset({"SafeModeException"}), "Wait until HDFS has left safe mode: `hdfs dfsadmin -safemode get` says why"),
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
class Refusal:
    """An error response of HDFS.

    :param kind: Hadoop's simple class name of its exception; empty when the response is not Hadoop's.
    :param message: First line of the message.
    :param server: Server that sent it.
    """

    kind: str
    message: str
    server: str


class HdfsRefusalError(Exception):
    """HDFS refused the operation."""

    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal
        super().__init__(refusal.message)


def refusal_of(status: int, body: bytes, server: str) -> Refusal:
    """Return the error in a response of a name node or data node."""
    try:
        remote = json.loads(body)["RemoteException"]
        kind, message = str(remote["exception"]), str(remote["message"])
    except (ValueError, KeyError, TypeError):
        return Refusal("", _foreign(status, body), server)
    if "(is not a directory)" in message:  # a name below a file: Hadoop reports it as an access error
        kind = "FileNotFoundException"
    return Refusal(_meant(kind, message), message.partition("\n")[0], server)


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
        return f"it asks for authentication (status {status})"
    return f"it answers with status {status}, and not as WebHDFS does"


def unavailable(what: str, refusal: Refusal) -> StorageUnavailableError:
    """Return our error for a refusal.

    :param what: The failure with its object, as the beginning of a sentence.
    """
    step = next((step for kinds, step in _STEPS if refusal.kind in kinds), _DEFAULT)
    if "authentication" in refusal.message:
        step = _STEPS[3][1]
    return StorageUnavailableError(f"{what}: {refusal.message.rstrip('.')} ({refusal.server})", next_step=step)


def unreached(server: str, error: Exception) -> Refusal:
    """Return the error for a server without a response."""
    if isinstance(error, urllib3.exceptions.NameResolutionError):
        return Refusal("", "its host name is not known here", server)
    if isinstance(error, urllib3.exceptions.TimeoutError) and not isinstance(
        error, urllib3.exceptions.ConnectTimeoutError
    ):
        return Refusal("", "no answer came in time", server)
    reason = str(error).rpartition(": ")[2] or type(error).__name__
    return Refusal("", f"it cannot be reached ({reason})", server)
