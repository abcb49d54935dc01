"""Files that a user named: checked before anything is done with them."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote

from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.uris import split


# spark-submit separates the names in --files, --py-files and --jars by commas, and what follows a hash is an alias.
_MISUNDERSTOOD = ",#"


def local_file(named: str | Path, what: str) -> Path:
    """Return the absolute path of a readable file.

    :param named: Path, absolute or relative to the working directory, or a ``file://`` URI.
    :param what: What it is to the user, for the error: ``"application"``, ``"jar"``.
    :raises ConfigurationError: It is not there, is no file, cannot be read, or Spark would misunderstand its name.
    """
    path = _absolute(named, what)
    if stat.S_ISDIR(_mode(path, what)):
        raise ConfigurationError(f"{what} {str(path)!r} is a directory", next_step=f"Name the file of the {what}")
    _check_readable(path, what)
    return path


def local_module(named: str | Path) -> Path:
    """Return the absolute path of a Python module or of a package directory.

    :raises ConfigurationError: It is not there, or cannot be read.
    """
    path = _absolute(named, "module")
    if not stat.S_ISDIR(_mode(path, "module")):
        _check_readable(path, "module")
    return path


def check_distinct(paths: Sequence[Path], what: str) -> None:
    """Check that files that will lie in one directory do not overwrite each other.

    :raises ConfigurationError: Two have one name; names both.
    """
    seen: dict[str, Path] = {}
    for path in paths:
        other = seen.setdefault(path.name, path)
        if other != path:
            raise ConfigurationError(
                f"two {what} have the name {path.name!r}: {str(other)!r} and {str(path)!r}",
                next_step="Rename one: both are copied into one directory",
            )


def _absolute(named: str | Path, what: str) -> Path:
    text = str(named)
    if text.startswith("file:"):
        # spark-submit takes escapes here, and every other place is read letter by letter.
        text = split(text).path if Path(split(text).path).exists() else unquote(split(text).path)
    elif "://" in text:
        raise ConfigurationError(
            f"{what} {text!r} is not a file on this host",
            next_step="Download it first, or name Maven coordinates in packages: the files of a run are copied with it",
        )
    if not text:
        raise ConfigurationError(f"no {what} is named", next_step=f"Give the path of the {what}")
    # Path.resolve() would follow links, but a link travels under its own name.
    path = Path(os.path.abspath(text))  # noqa: PTH100  # the reason is above
    if any(character in path.name for character in _MISUNDERSTOOD) or not path.name.isprintable():
        raise ConfigurationError(
            f"{what} {str(path)!r} has a name that spark-submit misunderstands",
            next_step="Rename it without commas, hashes and control characters",
        )
    return path


def _mode(path: Path, what: str) -> int:
    try:
        return path.stat().st_mode
    except FileNotFoundError as error:
        raise ConfigurationError(
            f"{what} {str(path)!r} does not exist",
            next_step="Check the path on the host that submits: with Airflow, the worker of this task",
        ) from error
    except (OSError, ValueError) as error:
        raise _unreadable(path, what, error) from error


def _check_readable(path: Path, what: str) -> None:
    # A pipe would block the process that opens it.
    if not stat.S_ISREG(_mode(path, what)):
        raise ConfigurationError(f"{what} {str(path)!r} is not a regular file", next_step="Copy it into one")
    try:
        with path.open("rb") as stream:
            stream.read(1)
    except OSError as error:
        raise _unreadable(path, what, error) from error


def _unreadable(path: Path, what: str, error: Exception) -> ConfigurationError:
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return ConfigurationError(
        f"{what} {str(path)!r} cannot be read: {reason}",
        next_step="Check that the submitter may read it on its host",
    )
