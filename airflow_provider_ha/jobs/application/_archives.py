"""Packages as zip files: the same content always makes the same bytes, and unpacking never leaves its directory.

The archive's digest is its name in storage; with dates and compression in it every submission would be a new blob.
"""

from __future__ import annotations

import os
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from airflow_provider_ha.errors import RecordCorruptError
from airflow_provider_ha.storage.durable import make_directories, replace_file


EPOCH = (1980, 1, 1, 0, 0, 0)  # the oldest date that a zip file can hold
_LEFT_OUT = frozenset({"__pycache__"})


def pack(package: Path, target: Path) -> None:
    """Zip a package directory, data files included, under its own name.

    Stored, not compressed: the output of zlib differs between its releases.

    :raises OSError: A file cannot be read.
    """
    _pack(package, PurePosixPath(package.name), target)


def pack_content(directory: Path, target: Path) -> None:
    """Zip what lies in a directory of modules, under the names that it has there.

    :raises OSError: A file cannot be read.
    """
    _pack(directory, PurePosixPath(), target)


def _pack(directory: Path, inside: PurePosixPath, target: Path) -> None:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for path in package_files(directory):
            name = (inside / path.relative_to(directory).as_posix()).as_posix()
            archive.writestr(zipfile.ZipInfo(name, EPOCH), path.read_bytes())


def package_files(package: Path) -> list[Path]:
    """Return the files that travel with a package, sorted: no caches and no hidden files. Links are followed.

    :raises OSError: A directory cannot be read: a part of a package is worse than none.
    """
    return sorted(_files(package, frozenset()))


def unpack(archive: Path, target: Path, *, source: str) -> None:
    """Unpack a package beside the application.

    :param source: What the archive is, for the error.
    :raises RecordCorruptError: It is no zip file, or names a file outside *target*; nothing was unpacked.
    """
    try:
        with zipfile.ZipFile(archive) as opened:
            members = [item for item in opened.infolist() if not item.is_dir()]
            for member in members:
                _check_member(member, source)
            for member in members:
                path = target / member.filename
                make_directories(path.parent)
                replace_file(path, opened.read(member))
    except zipfile.BadZipFile as error:
        raise RecordCorruptError(f"{source} is not a zip file ({error})") from error


def _files(directory: Path, above: frozenset[Path]) -> Iterator[Path]:
    real = directory.resolve()
    if real in above:  # a link to a directory above it
        return
    with os.scandir(directory) as scan:
        entries = [Path(item.path) for item in scan]
    for path in entries:
        if path.name in _LEFT_OUT or path.name.startswith(".") or path.suffix == ".pyc":
            continue
        if path.is_dir():
            yield from _files(path, above | {real})
        elif path.is_file():
            yield path


def _check_member(member: zipfile.ZipInfo, source: str) -> None:
    name = PurePosixPath(member.filename)
    linked = stat.S_ISLNK(member.external_attr >> 16)
    if name.is_absolute() or ".." in name.parts or "\\" in member.filename or linked:
        raise RecordCorruptError(
            f"{source} holds the unsafe name {member.filename!r}: it would be written outside its directory",
            next_step="Pack it again with plain relative names",
        )
