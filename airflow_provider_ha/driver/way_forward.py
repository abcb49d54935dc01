"""What to submit instead when a script brings its own checkpoint, or an output with a past: the parameters.

The checkpoint is adopted (``docs/how-to/adopt-a-checkpoint.md``): the job goes on from it, and no row is lost or twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from airflow_provider_ha.checkpoints.format.layout import progress, queries
from airflow_provider_ha.checkpoints.trees.local_tree import LocalTree
from airflow_provider_ha.errors import StorageUnavailableError


REMOVE = "Remove the option: each epoch of a managed job gets its own checkpoint location"
_EVERY_QUERY = "with every query of the script in it"
_COPY = "copy it to a directory that every driver host sees, then submit with"


def from_own_location(query: str, location: str, sink: str | None) -> str:
    """Return the next step for a query that names its own checkpoint location.

    :param location: As the script wrote it.
    :param sink: Output directory of its file sink, or the format of another sink; ``None`` when it is not known.
    """
    directory = _absolute(location)
    if directory is not None and not _has_committed(directory):  # guard: new-checkpoints-are-adopted
        return REMOVE
    if directory is None:
        given = parameters({query: f"/<copy of {location}>"}, {query: sink})
        return f"{REMOVE}. To go on from what it holds, {_COPY} {given}"
    given = parameters({query: str(directory)}, {query: sink})
    return f"{REMOVE}. To go on from what it holds, submit with {given}, {_EVERY_QUERY}"


def from_root(location: str) -> str:
    """Return the next step for a conf that names the parent of all checkpoint locations; as the user wrote it."""
    root = _absolute(location)
    found = {query: str(root / query) for query in _queries(root) if _has_committed(root / query)} if root else {}
    if not found:
        return REMOVE.replace("the option", "it")
    return f"{REMOVE.replace('the option', 'it')}. To go on from what it holds, submit with {parameters(found, {})}"


def from_output(query: str, output: str) -> str:
    """Return the next step for a query that begins from nothing on an output that has batches already."""
    given = parameters({query: f"/<checkpoint that wrote {output}>"}, {query: output})
    return (
        f"Submit with {given} to go on from the checkpoint of the query that wrote them, with start_from='latest' when "
        "this job wrote them, or write to a new output directory"
    )


def parameters(start_from: Mapping[str, str], sinks: Mapping[str, str | None]) -> str:
    """Return the parameters of ``SparkHaSubmitOperator`` that adopt checkpoints, as Python."""
    named = {query: sink for query, sink in sinks.items() if sink}
    return f"start_from={dict(start_from)!r}" + (f", sinks={named!r}" if named else "")


def _absolute(location: str) -> Path | None:
    """Return the directory that Spark means; ``None`` when it is on no mounted file system, or relative."""
    parts = urlsplit(location)
    path = Path(unquote(parts.path) if parts.scheme else location)
    return path if parts.scheme in ("", "file") and path.is_absolute() else None


def _has_committed(directory: Path) -> bool:
    try:
        return progress(LocalTree(directory)).committed >= 0
    except StorageUnavailableError:
        return True  # what cannot be read may be there: nothing is advised that would begin from nothing


def _queries(root: Path) -> list[str]:
    try:
        return queries(LocalTree(root))
    except StorageUnavailableError:
        return []
