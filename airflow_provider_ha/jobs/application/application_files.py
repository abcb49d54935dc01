"""Files of an application: named by the user or found next to the script, checked before they are stored.

``python app.py`` finds the modules in the script's directory because that directory is first on the path, so another
host needs them too. Imports are found by parsing the source, never by running it. Only the script's own directory is
searched: other modules belong to the environment, or are named by the user.
"""

from __future__ import annotations

import ast
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.machinery import EXTENSION_SUFFIXES
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.jobs.application.archives import UNPACKED_AS, check_archive, package_files
from airflow_provider_ha.jobs.options.declaration import all_of
from airflow_provider_ha.uris import split


_NAMELESS_SINKS = frozenset({"foreachBatch", "foreach"})
_SINKS = _NAMELESS_SINKS | {"format"}
_DEEP = 2  # levels below the script's directory
_MOST_FILES = 200
_DYNAMIC = frozenset({"import_module", "__import__"})


def sibling_modules(script: Path) -> tuple[Path, ...]:
    """Return the modules and package directories next to *script* that it imports, directly or indirectly; sorted.

    Found are ``import`` and ``from`` statements anywhere in the source, and ``importlib.import_module`` with a literal
    name. A module whose name is computed at run time has to be named in ``py_files``.

    :raises ConfigurationError: The script is not Python source.
    """
    found: set[Path] = set()
    pending = list(_imported(script, _parse_script(script)))
    while pending:
        path = pending.pop()
        if path in found or path == script:
            continue
        found.add(path)
        for source in package_files(path) if path.is_dir() else [path]:
            if source.suffix == ".py":
                pending.extend(_imported(script, _parse(source)))
    return tuple(sorted(found))


def check_queries(script: Path) -> tuple[int, ...]:
    """Return the lines of the script that start a query without a name, where the sink cannot name it either.

    Only single expressions from ``writeStream`` to ``start()`` are analysed, executed or not; the driver decides. A
    script with only such queries is refused immediately.

    :raises ConfigurationError: The script is not Python source, has only nameless queries, or only DStreams.
    """
    found, others, streaming = set(), False, False
    discretized: int | None = None
    for node in ast.walk(_parse_script(script)):
        streaming |= isinstance(node, ast.Attribute) and node.attr == "writeStream"
        if not isinstance(node, ast.Call):
            continue
        if _called(node.func) == "StreamingContext":
            discretized = node.lineno
        elif _called(node.func) in {"start", "toTable"}:
            if _is_nameless(node):
                found.add(node.func.end_lineno or node.lineno)
            else:
                others = True
    if discretized is not None and not streaming:
        raise ConfigurationError(
            f"{script.name}, line {discretized} creates a StreamingContext: DStreams have no queries with checkpoints "
            "that could be recovered",
            next_step="Write the stream with spark.readStream and writeStream, or run the script with spark-submit",
        )
    if found and not others:
        raise ConfigurationError(
            f"{script.name}, line {min(found)} starts a query without a name, and its sink gives it none that stays "
            "the same, so its checkpoint could not be found again",
            next_step='Add .queryName("...") to its writeStream, or .option("checkpointLocation", "...")',
        )
    return tuple(sorted(found))


def _is_nameless(start: ast.Call) -> bool:
    calls = list(_chain(start))
    names = [name for name, _ in calls]
    given = {each.arg for _, call in calls for each in call.keywords}  # None: from a mapping
    firsts = (call.args[0] for name, call in calls if name == "option" and call.args)
    given |= {str(each.value) for each in firsts if isinstance(each, ast.Constant)}
    sink = next((name for name in names if name in _SINKS), None)  # the last call counts
    with_format = len(start.args) > 1
    named = "queryName" in names or not given.isdisjoint({"queryName", "checkpointLocation", "format", None})
    return "writeStream" in names and sink in _NAMELESS_SINKS and not named and not with_format


def _chain(node: ast.expr) -> Iterator[tuple[str, ast.Call]]:
    """Yield name and call of all parts of ``a.b(x).c(y)`` from its end; for an attribute, an empty call."""
    while True:
        call = ast.Call(node, [], [])
        if isinstance(node, ast.Call):
            call, node = node, node.func
        if not isinstance(node, ast.Attribute):
            return
        yield node.attr, call
        node = node.value


def files_beside(script: Path) -> tuple[str, ...]:
    """Return the data files below the directory of *script*, relative to it, sorted.

    They are not uploaded. The names of a limited number, nearest first, help to explain a failure.
    """
    found: list[str] = []
    for directory, directories, files in os.walk(script.parent):
        depth = len(Path(directory).relative_to(script.parent).parts)
        directories[:] = [name for name in sorted(directories) if depth < _DEEP and name[0] not in "._"]
        found += [
            str((Path(directory) / name).relative_to(script.parent))
            for name in sorted(files)
            if name[0] != "." and not name.endswith((".py", ".pyc"))
        ]
        if len(found) >= _MOST_FILES:
            break
    return tuple(sorted(found[:_MOST_FILES]))


def _parse_script(script: Path) -> ast.Module:
    try:
        return ast.parse(script.read_bytes(), filename=str(script))
    except (SyntaxError, ValueError) as error:
        raise ConfigurationError(
            f"application {str(script)!r} is not a Python script: {error}",
            next_step="Correct the script, or name a file that is one",
        ) from error


def _parse(source: Path) -> ast.Module | None:
    """Parse a sibling module. An unparsable one is still uploaded: it may be for another Python, or unused."""
    try:
        return ast.parse(source.read_bytes(), filename=str(source))
    except (SyntaxError, ValueError):
        return None


def _imported(script: Path, tree: ast.Module | None) -> Iterator[Path]:
    if tree is None:
        return
    for name in sorted({name.partition(".")[0] for node in ast.walk(tree) for name in _names(node)}):
        sibling = _sibling(script.parent, name)
        if sibling is not None:
            yield sibling


def _names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
        yield node.module
    elif isinstance(node, ast.Call) and _called(node.func) in _DYNAMIC and node.args:
        first = node.args[0]
        if isinstance(first, ast.Constant) and isinstance(first.value, str):
            yield first.value


def _called(function: ast.expr) -> str | None:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else None


def _sibling(directory: Path, name: str) -> Path | None:
    """Return the path that Python would import as *name* from *directory*, in Python's order, or ``None``."""
    package = directory / name
    modules = [directory / f"{name}{suffix}" for suffix in (*EXTENSION_SUFFIXES, ".py")]
    if (package / "__init__.py").is_file():
        return package
    for module in modules:
        if module.is_file():
            return module
    if name and package.is_dir() and any(path.suffix == ".py" for path in package_files(package)):
        return package  # a namespace package
    return None


# In --files, --py-files and --jars, spark-submit separates names by commas, and a hash starts an alias.
_MISUNDERSTOOD = ",#"


def local_file(named: str | Path, what: str) -> Path:
    """Return the absolute path of a readable file.

    :param named: Path, absolute or relative to the working directory, or a ``file://`` URI.
    :param what: Name of the user's option, for the error: ``"application"``, ``"jar"``.
    :raises ConfigurationError: The file is missing, is no file, cannot be read, or Spark would misinterpret its name.
    """
    path = _absolute(named, what)
    if stat.S_ISDIR(_mode(path, what)):
        raise ConfigurationError(f"{what} {str(path)!r} is a directory", next_step=f"Name the file of the {what}")
    _check_file_readable(path, what)
    return path


def check_distinct(paths: Sequence[Path], what: str) -> None:
    """Check that files for the same directory do not overwrite each other.

    :raises ConfigurationError: Two files have the same name; the message has both paths.
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
        # Only here does spark-submit accept escapes; it takes other paths literally.
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


def _check_file_readable(path: Path, what: str) -> None:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationFiles:
    """An application on the submitting host, checked and not yet uploaded.

    :param modules: Modules and package directories for the directory of the script.
    :param archives: Archives with their aliases, which may be empty.
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
) -> ApplicationFiles:
    """Find and check all files of an application. Writes nothing.

    :param application: The script; modules and packages next to it that it imports are found automatically.
    :param archives: Archives to unpack, with ``#`` and an alias if the directory has another name.
    :raises ConfigurationError: Files are missing, are directories, cannot be read or cannot be uploaded; the message
        has all names.
    """
    checks: list[Callable[[], Any]] = [partial(local_file, application, "application")]
    for what, named in (("py_file", py_files), ("file", files), ("jar", jars)):
        checks += [partial(local_file, each, what) for each in named]
    checks += [partial(_archive, each) for each in archives]
    try:
        script, *others = all_of(checks)
        rest = iter(others)
        found = ApplicationFiles(
            application=script,
            modules=sibling_modules(script),
            py_files=tuple(islice(rest, len(py_files))),
            files=tuple(islice(rest, len(files))),
            jars=tuple(islice(rest, len(jars))),
            archives=tuple(rest),
        )
        _check_readable(found.modules)
    except OSError as error:
        raise unreadable(Path(application), error) from error
    check_distinct((found.application, *found.modules), "modules")
    for what, paths in (("py_files", found.py_files), ("files", found.files), ("jars", found.jars)):
        check_distinct(paths, what)
    check_distinct([path for path, _ in found.archives], "archives")
    _check_places(found)
    return found


def unreadable(script: Path, error: OSError) -> ConfigurationError:
    """Return the error for a file that cannot be read, or has vanished after the search."""
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
    """Check that archives and files, which share a directory, do not replace each other."""
    places = [path.name for path in found.files] + [alias or path.name for path, alias in found.archives]
    twice = sorted({name for name in places if places.count(name) > 1} | ({UNPACKED_AS} & set(places)))
    if twice:
        raise ConfigurationError(
            f"files and archives share a name in the driver's directory, or with the script's modules: {twice}",
            next_step="Give the archives other aliases: archive.tar.gz#name",
        )


def _check_readable(modules: Sequence[Path]) -> None:
    for module in modules:
        for path in package_files(module) if module.is_dir() else [module]:
            with path.open("rb"):
                pass
