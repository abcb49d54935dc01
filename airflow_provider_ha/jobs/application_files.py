"""Which files an application consists of, checked on the submitting host before anything is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.jobs._archives import package_files
from airflow_provider_ha.jobs.application_scan import sibling_modules
from airflow_provider_ha.jobs.local_file import check_distinct, local_file, local_module


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationFiles:
    """An application on the submitting host; checked, nothing is written yet.

    :param modules: Modules and package directories that go beside the script.
    """

    application: Path
    modules: tuple[Path, ...] = ()
    py_files: tuple[Path, ...] = ()
    files: tuple[Path, ...] = ()
    jars: tuple[Path, ...] = ()


def collect_application(
    *,
    application: str | Path,
    py_files: Sequence[str | Path] = (),
    files: Sequence[str | Path] = (),
    jars: Sequence[str | Path] = (),
    modules: Sequence[str | Path] = (),
) -> ApplicationFiles:
    """Find and check all files of an application. Writes nothing.

    :param application: The script; modules and packages beside it that it imports are found by themselves.
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
        )
        _check_readable(found.modules)
    except OSError as error:
        raise unreadable(script, error) from error
    check_distinct((found.application, *found.modules), "modules")
    for what, paths in (("py_files", found.py_files), ("files", found.files), ("jars", found.jars)):
        check_distinct(paths, what)
    return found


def unreadable(script: Path, error: OSError) -> ConfigurationError:
    """Return the error for a file that cannot be read, or vanished after it was found."""
    return ConfigurationError(
        f"the files of application {str(script)!r} cannot be read or copied: {error}",
        next_step="Check that the submitter may read them on its host, and that the host has space for a copy",
    )


def _check_readable(modules: Sequence[Path]) -> None:
    for module in modules:
        for path in package_files(module) if module.is_dir() else [module]:
            with path.open("rb"):
                pass
