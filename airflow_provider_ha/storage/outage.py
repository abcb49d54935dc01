"""Translation of file system errors to ``StorageUnavailableError``; the only place for it.

An outage gives no information about the object: the disk is full, the share is not mounted, the permissions changed, or
this process has no descriptors left. It may end with or without an operator's help, so the operation is retried. Any
other ``OSError`` is an answer (missing, exists) or a bug (not a directory, a bad descriptor), and passes unchanged.

``EIO`` is an outage: a disk that returns causes it, as does a dying disk, and a retry loses nothing. Spark itself ends
on ``EIO``; the restart strategy then decides.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from airflow_provider_ha.errors import StorageUnavailableError


_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_AWAY = frozenset(
    {errno.EIO, errno.EREMOTEIO, errno.ESTALE, errno.ENODEV, errno.ENXIO, errno.ENOTCONN, errno.ESHUTDOWN}
    | {errno.ETIMEDOUT, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETDOWN, errno.ENETUNREACH, errno.ECONNRESET}
    | {errno.ECONNREFUSED, errno.ECONNABORTED, errno.ENOLCK, errno.EBUSY, errno.EAGAIN}
)
_REFUSED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
OUTAGES = _FULL | _AWAY | _REFUSED | _EXHAUSTED

FULL_STEP = "Free space or inodes, or raise the quota"
_STEPS = (
    (_FULL, FULL_STEP),
    (_AWAY, "Check the disk, or the mount and its server"),
    (_REFUSED, "Check the permissions to read and write there, and whether it is mounted for writing"),
    (_EXHAUSTED, "Raise the limit of open files, or free memory"),
)


def is_outage(error: BaseException) -> bool:
    """Return whether an error is an outage of a file system, or this package's error for it."""
    if isinstance(error, OSError):
        return error.errno in OUTAGES
    return isinstance(error, StorageUnavailableError)


def is_full(error: BaseException) -> bool:
    """Return whether a local file system is full."""
    return isinstance(error, OSError) and error.errno in _FULL


def unavailable(what: str, error: OSError) -> StorageUnavailableError:
    """Return the error to raise.

    :param what: Failure and its object, as the beginning of a sentence.
    """
    default = "Check the file system, its free space, and the permissions to read and write there"
    step = next((step for numbers, step in _STEPS if error.errno in numbers), default)
    reason = error.strerror or str(error)
    named = error.filename is None or str(error.filename) in what
    return StorageUnavailableError(f"{what}: {reason if named else f'{reason} ({error.filename})'}", next_step=step)


@contextmanager
def outages(doing: str, path: str | os.PathLike[str]) -> Iterator[None]:
    """Translate the outages of a block; other errors pass.

    :param doing: Action on *path*, as a participle: ``"linked"``, ``"written"``.
    :raises StorageUnavailableError: The file system does not answer.
    """
    try:
        yield
    except OSError as error:
        if not is_outage(error):
            raise
        raise unavailable(f"{os.fspath(path)} could not be {doing}", error) from error
