"""Archives of an application: reproducible packages, and safe unpacking next to the driver.

Packages: the digest of an archive is its name in storage, so dates and compression are left out: otherwise every
submission would create a new blob.

User archives: Spark unpacks an archive for each executor, by the ending of its name. The supervisor does the same for
the driver, whose Python may be in the archive.

Invariants: a mistake in a user's archive must not overwrite files of the host. So all names of the archive are checked
before the first becomes a path, and writes never follow a link from the archive. The target of a symbolic link is not
checked: the interpreter of a packed environment is a link to the host's interpreter.
"""

from __future__ import annotations

import os
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from lzma import LZMAError
from pathlib import Path, PurePosixPath

from airflow_provider_ha.clock import new_id
from airflow_provider_ha.errors import ConfigurationError, RecordCorruptError
from airflow_provider_ha.storage.durable import PRIVATE_DIRECTORY, make_directories, replace_file


ENDINGS = (".zip", ".jar", ".tar.gz", ".tgz", ".tar")  # archives that Spark unpacks; it only copies others
UNPACKED_AS = "spark-ha-modules"  # directory of the script's own modules among the files of an executor
_ZIPS = ENDINGS[:2]
_DAMAGE = (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, LZMAError, OSError)
_OWNER_FILE, _OWNER_PROGRAM = 0o600, 0o700


@dataclass(frozen=True, slots=True)
class _Member:
    """An entry of an archive.

    :param kind: ``directory``, ``file``, ``link`` (symbolic) or ``hard link``.
    :param executable: Whether its owner may execute it.
    """

    name: PurePosixPath
    kind: str
    target: str = ""
    executable: bool = False


def check_archive(archive: Path) -> None:
    """Refuse an archive that Spark would not unpack, or with a name outside the archive.

    :raises ConfigurationError: The archive is refused; the message has the entry.
    """
    if not archive.name.lower().endswith(ENDINGS):
        raise ConfigurationError(
            f"Spark does not unpack the archive {str(archive)!r}",
            next_step=f"Pack it into one whose name ends with {', '.join(ENDINGS)}",
        )
    with _opened(archive) as opened:
        _checked(archive, opened)


def unpack_archive(archive: Path, target: Path) -> None:
    """Unpack an archive as the directory *target*, replacing an existing one. Only its owner can read it.

    :raises ConfigurationError: As :func:`check_archive`; raised before any write.
    """
    aside = target.with_name(f".{target.name}-{new_id()[:8]}.tmp")
    with _opened(archive) as opened:
        members = _checked(archive, opened)
        try:
            for raw, member in members:
                _write(opened, raw, member, aside)
            _make(aside)
            shutil.rmtree(target, ignore_errors=True)
            aside.rename(target)
        finally:
            shutil.rmtree(aside, ignore_errors=True)


_Raw = tarfile.TarInfo | zipfile.ZipInfo
_Opened = tarfile.TarFile | zipfile.ZipFile


@contextmanager
def _opened(archive: Path) -> Iterator[_Opened]:
    """Open an archive; errors in its content become errors of the user."""
    with archive.open("rb"):  # an unreadable file is not a damaged archive
        pass
    try:
        with zipfile.ZipFile(archive) if archive.name.lower().endswith(_ZIPS) else tarfile.open(archive) as opened:
            yield opened
    except _DAMAGE as error:
        if isinstance(error, OSError) and error.errno is not None and not isinstance(error, tarfile.TarError):
            raise  # an error of the disk
        raise ConfigurationError(
            f"the archive {archive.name!r} cannot be unpacked: {error}", next_step="Pack it again"
        ) from error


def _checked(archive: Path, opened: _Opened) -> list[tuple[_Raw, _Member]]:
    raws: list[_Raw] = [*opened.infolist()] if isinstance(opened, zipfile.ZipFile) else list(opened)
    members = [(raw, _of_zip(raw) if isinstance(raw, zipfile.ZipInfo) else _of_tar(raw)) for raw in raws]
    links: set[PurePosixPath] = set()
    files: set[PurePosixPath] = set()
    for _, member in members:
        reason = _fault(member, links, files)
        if reason:
            raise ConfigurationError(
                f"the archive {archive.name!r} holds {str(member.name)!r}, {reason}",
                next_step="Pack it again with plain relative names",
            )
        if member.kind == "link":
            links.add(member.name)
        elif member.kind != "directory":
            files.add(member.name)
    return members


def _fault(member: _Member, links: set[PurePosixPath], files: set[PurePosixPath]) -> str:
    """Return the error of an entry; empty if it is correct. Pure.

    :param links: Symbolic links before the entry.
    """
    name = member.name
    if name.is_absolute() or ".." in name.parts or "\\" in str(name):
        return "which is outside the archive"
    if not member.kind:
        return "which is neither file, directory nor link"
    if any(parent in links for parent in (name, *name.parents)):
        return "which is behind a link in the archive"
    if member.kind == "hard link" and PurePosixPath(member.target) not in files:
        return f"a link to {member.target!r}, which is no earlier file"
    return ""


def _of_tar(raw: tarfile.TarInfo) -> _Member:
    kind = "directory" if raw.isdir() else "file" if raw.isreg() else ""
    kind = "link" if raw.issym() else "hard link" if raw.islnk() else kind
    return _Member(PurePosixPath(raw.name), kind, raw.linkname, bool(raw.mode & stat.S_IXUSR))


def _of_zip(raw: zipfile.ZipInfo) -> _Member:
    mode = raw.external_attr >> 16
    kind = "directory" if raw.is_dir() else "" if stat.S_ISLNK(mode) else "file"
    return _Member(PurePosixPath(raw.filename), kind, "", bool(mode & stat.S_IXUSR))


def _write(opened: _Opened, raw: _Raw, member: _Member, root: Path) -> None:
    path = root / member.name
    if member.kind == "directory":
        _make(path)
        return
    _make(path.parent)
    if path.is_symlink() or path.exists():  # tar would overwrite a repeated name
        path.unlink()
    if member.kind == "link":
        path.symlink_to(member.target)
    elif member.kind == "hard link":
        os.link(root / member.target, path)
    else:
        _write_file(opened, raw, path, _OWNER_PROGRAM if member.executable else _OWNER_FILE)


def _make(path: Path) -> None:
    """Create a directory with its parents, without syncing them: an environment has thousands."""
    if not path.is_dir():
        _make(path.parent)
        path.mkdir(PRIVATE_DIRECTORY)


def _write_file(opened: _Opened, raw: _Raw, path: Path, mode: int) -> None:
    if isinstance(opened, zipfile.ZipFile):
        assert isinstance(raw, zipfile.ZipInfo)  # noqa: S101  # member of this archive
        source = opened.open(raw)
    else:
        assert isinstance(raw, tarfile.TarInfo)  # noqa: S101  # member of this archive
        found = opened.extractfile(raw)
        assert found is not None  # noqa: S101  # it is a file
        source = found
    with source, os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as written:
        shutil.copyfileobj(source, written, 1024 * 1024)


EPOCH = (1980, 1, 1, 0, 0, 0)  # the oldest date in a zip file
_LEFT_OUT = frozenset({"__pycache__"})


def pack(package: Path, target: Path) -> None:
    """Zip a package directory, including data files, under its own name.

    Files are stored without compression, because the output of zlib differs between releases.

    :raises OSError: A file cannot be read.
    """
    _pack(package, PurePosixPath(package.name), target)


def pack_content(directory: Path, target: Path) -> None:
    """Zip the content of a directory of modules, with names relative to it.

    :raises OSError: A file cannot be read.
    """
    _pack(directory, PurePosixPath(), target)


def _pack(directory: Path, inside: PurePosixPath, target: Path) -> None:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for path in package_files(directory):
            name = (inside / path.relative_to(directory).as_posix()).as_posix()
            archive.writestr(zipfile.ZipInfo(name, EPOCH), path.read_bytes())


def package_files(package: Path) -> list[Path]:
    """Return the files to upload with a package, sorted, without caches and hidden files. Links are followed.

    :raises OSError: A directory cannot be read; a partial package would be worse than no package.
    """
    return sorted(_files(package, frozenset()))


def unpack(archive: Path, target: Path, *, source: str) -> None:
    """Unpack a package next to the application.

    :param source: Description of the archive for the error.
    :raises RecordCorruptError: It is no zip file, or names a file outside *target*; raised before any write.
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
    if real in above:  # a link to a parent directory
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
