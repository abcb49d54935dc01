"""Which files beside a script belong to it.

``python app.py`` finds the modules in the script's directory because that directory is first on the path; so on another
host they have to be there too. What is imported is found by reading the source, never by running it. Only the script's
own directory is looked at: the rest is the environment's, or is given by name.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.jobs.application._archives import package_files


_NAMELESS_SINKS = frozenset({"foreachBatch", "foreach"})
_SINKS = _NAMELESS_SINKS | {"format"}
_DEEP = 2  # directories below that of the script
_MOST_FILES = 200
_DYNAMIC = frozenset({"import_module", "__import__"})


def sibling_modules(script: Path) -> tuple[Path, ...]:
    """Return the modules and package directories beside *script* that it imports, directly or through others; sorted.

    Found are ``import`` and ``from`` statements anywhere in the source, and ``importlib.import_module`` with a literal
    name. A module whose name is computed at run time has to be given as ``modules``.

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
    """Return the lines of the script at which a query without a name is started that nothing else can name.

    Only what one expression says from ``writeStream`` to ``start()`` is seen, whether it is executed or not; the driver
    decides. A script that has nothing else to run is refused at once.

    :raises ConfigurationError: The script is not Python source, starts no query but such ones, or has DStreams alone.
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
            f"{script.name}, line {discretized} makes a StreamingContext: DStreams have no queries with checkpoints "
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
    given = {each.arg for _, call in calls for each in call.keywords}  # None: of a mapping
    firsts = (call.args[0] for name, call in calls if name == "option" and call.args)
    given |= {str(each.value) for each in firsts if isinstance(each, ast.Constant)}
    sink = next((name for name in names if name in _SINKS), None)  # the last one counts
    with_format = len(start.args) > 1
    named = "queryName" in names or not given.isdisjoint({"queryName", "checkpointLocation", "format", None})
    return "writeStream" in names and sink in _NAMELESS_SINKS and not named and not with_format


def _chain(node: ast.expr) -> Iterator[tuple[str, ast.Call]]:
    """Yield the names of ``a.b(x).c(y)`` from its end, each with its call; of an attribute, an empty call."""
    while True:
        call = ast.Call(node, [], [])
        if isinstance(node, ast.Call):
            call, node = node, node.func
        if not isinstance(node, ast.Attribute):
            return
        yield node.attr, call
        node = node.value


def files_beside(script: Path) -> tuple[str, ...]:
    """Return the data files below the directory of *script*, relative to it, for the reason of a failure; sorted.

    They do not travel by themselves. Only names are taken, those near the script first, and not more than a few.
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
    """Parse a sibling. One that this Python cannot read still travels: it may be for another Python, or unused."""
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
    """Return what Python would import as *name* from *directory*, in Python's own order; ``None`` for nothing."""
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
