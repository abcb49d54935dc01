"""The one place where an error of a file system becomes ``StorageUnavailableError``.

An outage says nothing about the object that was asked for: the disk is full, the share is away, the rights have
changed, this process has no more descriptors. It can end by itself, or by what an operator does, so it is tried again.
Every other ``OSError`` is an answer (it is not there, it exists) or a mistake in a program (not a directory, a bad
descriptor), and passes as it is.

``EIO`` is an outage: a path to a disk that comes back gives it as well as a disk that is dying, and a caller that
tries again loses nothing. Spark itself ends when it meets one; the restart strategy then decides.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from airflow_provider_ha.errors import StorageUnavailableError


_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})  # guard: full-disk-is-a-mistake
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
    """Whether an error is of a file system that does not answer, or of one of ours that says so."""
    if isinstance(error, OSError):
        return error.errno in OUTAGES
    return isinstance(error, StorageUnavailableError)


def is_full(error: BaseException) -> bool:
    """Whether a file system of this host has no room."""
    return isinstance(error, OSError) and error.errno in _FULL


def unavailable(what: str, error: OSError) -> StorageUnavailableError:
    """Return the error to raise.

    :param what: What could not be done, with its object, as the beginning of a sentence.
    """
    default = "Check the file system, its free space, and the permissions to read and write there"
    step = next((step for numbers, step in _STEPS if error.errno in numbers), default)
    reason = error.strerror or str(error)
    named = error.filename is None or str(error.filename) in what
    return StorageUnavailableError(f"{what}: {reason if named else f'{reason} ({error.filename})'}", next_step=step)


@contextmanager
def outages(doing: str, path: str | os.PathLike[str]) -> Iterator[None]:
    """Translate the outages of a block, and nothing else.

    :param doing: What it does to *path*, as a participle: ``"linked"``, ``"written"``.
    :raises StorageUnavailableError: The file system does not answer.
    """
    try:
        yield
    except OSError as error:
        if not is_outage(error):  # guard: every-oserror-is-an-outage
            raise
        raise unavailable(f"{os.fspath(path)} could not be {doing}", error) from error
