"""Which files an application consists of, checked on the submitting host before anything is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.jobs.application._archives import package_files
from airflow_provider_ha.jobs.application.application_scan import sibling_modules
from airflow_provider_ha.jobs.application.local_file import check_distinct, local_file, local_module
from airflow_provider_ha.jobs.application.unpacking import UNPACKED_AS, check_archive


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationFiles:
    """An application on the submitting host; checked, nothing is written yet.

    :param modules: Modules and package directories that go beside the script.
    :param archives: Each with its alias, which may be empty.
    """

    application: Path
    modules: tuple[Path, ...] = ()
    py_files: tuple[Path, ...] = ()
    files: tuple[Path, ...] = ()
    jars: tuple[Path, ...] = ()
    archives: tuple[tuple[Path, str], ...] = ()


def collect_application(
    *,
    application: str | Path,
    py_files: Sequence[str | Path] = (),
    files: Sequence[str | Path] = (),
    jars: Sequence[str | Path] = (),
    archives: Sequence[str | Path] = (),
    modules: Sequence[str | Path] = (),
) -> ApplicationFiles:
    """Find and check all files of an application. Writes nothing.

    :param application: The script; modules and packages beside it that it imports are found by themselves.
    :param archives: What is unpacked, each with ``#`` and an alias where that is not its own name.
    :param modules: Further modules and package directories, for imports that are computed at run time.
    :raises ConfigurationError: Something is missing, is a directory, cannot be read or cannot travel; names it.
    """
    script = local_file(application, "application")
    given = tuple(local_module(module) for module in modules)
    try:
        found = ApplicationFiles(
            application=script,
            modules=tuple(dict.fromkeys((*given, *sibling_modules(script)))),
            py_files=tuple(local_file(file, "py_file") for file in py_files),
            files=tuple(local_file(file, "file") for file in files),
            jars=tuple(local_file(file, "jar") for file in jars),
            archives=tuple(_archive(named) for named in archives),
        )
        _check_readable(found.modules)
    except OSError as error:
        raise unreadable(script, error) from error
    check_distinct((found.application, *found.modules), "modules")
    for what, paths in (("py_files", found.py_files), ("files", found.files), ("jars", found.jars)):
        check_distinct(paths, what)
    check_distinct([path for path, _ in found.archives], "archives")
    _check_places(found)
    return found


def unreadable(script: Path, error: OSError) -> ConfigurationError:
    """Return the error for a file that cannot be read, or vanished after it was found."""
    return ConfigurationError(
        f"the files of application {str(script)!r} cannot be read or copied: {error}",
        next_step="Check that the submitter may read them on its host, and that the host has space for a copy",
    )


def _archive(named: str | Path) -> tuple[Path, str]:
    text, hashed, alias = str(named).partition("#")
    path = local_file(text, "archive")
    if hashed and (alias in ("", ".", "..") or any(bad in alias for bad in "/\\,#") or not alias.isprintable()):
        raise ConfigurationError(
            f"the archive {str(named)!r} has an alias that is no name of a directory",
            next_step="Write archive.tar.gz#name",
        )
    check_archive(path)
    return path, alias


def _check_places(found: ApplicationFiles) -> None:
    """Check that archives and files, which lie in one directory, do not replace each other."""
    places = [path.name for path in found.files] + [alias or path.name for path, alias in found.archives]
    twice = sorted({name for name in places if places.count(name) > 1} | ({UNPACKED_AS} & set(places)))
    if twice:
        raise ConfigurationError(
            f"files and archives have one name in the driver's directory, or that of the script's modules: {twice}",
            next_step="Give the archives other aliases: archive.tar.gz#name",
        )


def _check_readable(modules: Sequence[Path]) -> None:
    for module in modules:
        for path in package_files(module) if module.is_dir() else [module]:
            with path.open("rb"):
                pass
