"""Conversion of a key from a record to a path, with its validation.

Invariant: the content of ZooKeeper and payloads is untrusted. A key must be a directory of the record's job, below the
work root and without a symbolic link in its path; otherwise it is refused before a read, rename or removal.
"""

from __future__ import annotations

import stat
from pathlib import Path

from airflow_provider_ha.errors import ConfigurationError, RecordCorruptError, StorageUnavailableError
from airflow_provider_ha.storage.key_names import check_key


def resolve_key(root: Path, key: str, *, inside: tuple[str, ...], source: str) -> Path:
    """Return the path of *key*.

    :param root: Root of all keys of directories.
    :param key: Key from a record.
    :param inside: Prefixes with a final slash; the key is a prefix and exactly one name.
    :param source: Location of the record, for the error: ``"znode /spark-ha/default/flights/generation"``.
    :raises RecordCorruptError: The key leads anywhere else.
    :raises StorageUnavailableError: The path to it could not be checked.
    """
    check_inside(key, inside=inside, source=source)
    refuse_links(root, key, source=source)
    return root / key


def check_inside(key: str, *, inside: tuple[str, ...], source: str) -> str:
    """Return *key* when it names one directory in *inside*.

    :raises RecordCorruptError: It leads anywhere else.
    """
    try:
        check_key(key)
    except ConfigurationError as error:
        raise _refused(source, error.message) from None
    if not any(key.startswith(prefix) and "/" not in key.removeprefix(prefix) for prefix in inside):
        raise _refused(source, f"{key!r} is not a directory in {' or '.join(inside)}")
    return key


def refuse_links(root: Path, key: str, *, source: str) -> None:
    """Refuse a key that leads through a symbolic link, which could end anywhere.

    :param source: Location of the key, for the error.
    :raises RecordCorruptError: It does.
    :raises StorageUnavailableError: The path to it could not be inspected.
    """
    path = root
    for segment in key.split("/"):
        path /= segment
        if _is_link(path):  # guard: links-on-the-way-are-followed
            raise _refused(source, f"{path} on the way to {key!r} is a symbolic link")


def _is_link(path: Path) -> bool:
    try:
        return stat.S_ISLNK(path.lstat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise StorageUnavailableError(
            f"{path} could not be inspected: {error.strerror or error}",
            next_step="Check the file system, and the permission to read there",
        ) from error


def _refused(source: str, reason: str) -> RecordCorruptError:
    return RecordCorruptError(
        f"{source} is refused: {reason}",
        next_step="Find its writer (see the page about the security model), correct the record, and try again; "
        "nothing was read or changed there",
    )
