"""Paths of the script: own checkpoint locations, outputs, and the parameters to submit instead.

A managed query works in the directory of its epoch, so the location is not used. It may hold the past of the query,
though: a script that has run elsewhere until now still names it. Without a check such a query would start without its
past, read its input again and write its output twice.

Invariant: a query with a named location that holds a committed batch, or is unreadable, never starts without its past,
unless its user has requested that with ``start_from="fresh"``. The location is only read.

The checkpoint is adopted (``docs/how-to/adopt-a-checkpoint.md``): the job continues from it without losing or
duplicating rows.

Spark resolves a relative path against the working directory of its driver. Each attempt has its own working directory,
so a relative output splits over the attempts: the sink looks empty after a recovery, and its rows are lost.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from airflow_provider_ha.checkpoints.spark.checkpoint_layout import progress, queries
from airflow_provider_ha.checkpoints.spark.places import StorageAccess, output_place
from airflow_provider_ha.driver.queries.writer_notes import WriterNotes
from airflow_provider_ha.driver.spark_conf import CHECKPOINT_LOCATION
from airflow_provider_ha.errors import ApplicationRefusedError, ConfigurationError, HaError
from airflow_provider_ha.uris import split


# As Python quotes the file of an OSError, and as Spark names it.
_PATH = re.compile(r"\[Errno 2\] No such file or directory: '([^']+)'|does not exist: (\S+?)\.?(?: |$)")
_EVERY_QUERY = "with every query of the script in it"


def from_own_location(query: str, location: str, sink: str | None, *, others: Mapping[str, str] | None = None) -> str:
    """Return the next step for a query whose own checkpoint location holds its past.

    :param location: As the script wrote it.
    :param sink: Output directory of its file sink, or the format of another sink; ``None`` when it is not known.
    :param others: Query -> checkpoint of the other queries next to it.
    """
    fresh = "with start_from='fresh' to start from nothing"
    try:
        place = output_place(location)
    except ConfigurationError:
        given = parameters({query: f"/<copy of {location}>"}, {query: sink})
        return (
            f"Copy it to a directory that every driver host sees and submit with {given} to continue from it, "
            f"or {fresh}"
        )
    given = parameters({**(others or {}), query: place}, {query: sink})
    return f"Submit with {given}, {_EVERY_QUERY}, to continue from it (it is verified, and unchanged), or {fresh}"


def beside_other_queries(query: str, location: str, sink: str | None) -> str:
    """Return the next step for such a query when the job continues from a checkpoint that does not have it."""
    try:
        place = output_place(location)
    except ConfigurationError:
        place = f"/<copy of {location}>"
    return (
        "Remove this location from the script or the conf to start the query from nothing, or run the query in a "
        f"job with another id, submitted with {parameters({query: place}, {query: sink})}, to continue from it"
    )


def from_output(query: str, output: str) -> str:
    """Return the next step for a query that begins from nothing on an output that has batches already."""
    given = parameters({query: f"/<checkpoint that wrote {output}>"}, {query: output})
    return (
        f"Submit with {given} to continue from the checkpoint of the query that wrote them, with start_from='latest' "
        "when this job wrote them, or write to a new output directory"
    )


def from_missing_file(message: str, beside: Sequence[str], directories: Sequence[Path]) -> str:
    """Return the next step when an error names a file that stayed on the host that submitted the script; else empty.

    :param message: Of the error.
    :param beside: Files next to the script there, relative to it.
    :param directories: Of the script, and the driver's working directory.
    """
    for found in _PATH.findall(message):
        named = next(filter(None, found))
        path = Path(unquote(urlsplit(named).path))
        inside = [path.relative_to(each) for each in directories if path.is_relative_to(each)]
        if path.is_absolute() and not inside:
            continue
        wanted = str(inside[0] if inside else path)
        if wanted in beside:
            return (
                f"{wanted} is next to the script on the submitting host, and is not shipped automatically: ship "
                f"it with --files {wanted} (files=[{wanted!r}]) and open it by its bare name, {Path(wanted).name!r}"
            )
        if any(name.startswith(f"{wanted}/") for name in beside):
            return (
                f"the directory {wanted} is next to the script on the submitting host, and is not shipped "
                "automatically: name it by an absolute path that every driver host sees, or ship the files with --files"
            )
        return (
            f"{wanted} is searched for in a directory that contains only the shipped files: "
            "write an absolute path, or ship the file with --files (files=)"
        )
    return ""


def parameters(start_from: Mapping[str, str], sinks: Mapping[str, str | None]) -> str:
    """Return the parameters of ``SparkHaSubmitOperator`` that adopt checkpoints, as Python."""
    named = {query: sink for query, sink in sinks.items() if sink}
    return f"start_from={dict(start_from)!r}" + (f", sinks={named!r}" if named else "")


# Sinks that do not look at a path.
_PATHLESS = frozenset({"foreachbatch", "foreach", "console", "kafka", "memory", "noop", "jdbc"})
# Sinks whose path is the name of a table or an index.
_NAMED = frozenset({"bigquery", "es", "opensearch", "org.elasticsearch.spark.sql", "org.opensearch.spark.sql"})
# A table name, or a path when it has a slash.
_NAMED_OR_PATH = frozenset({"iceberg"})


def is_relative(source: str, path: str) -> bool:
    """Return whether *path* depends on the working directory of the driver.

    :param source: Format of the sink.
    :param path: As the script gave it: a path or a URI.
    """
    kind = source.lower()
    if kind in _PATHLESS or kind in _NAMED or (kind in _NAMED_OR_PATH and "/" not in path):
        return False
    parts = split(path)
    return not parts.authority and not parts.path.startswith("/")


def refuse_relative(who: str, source: str, path: str | None, *, reads: bool = False) -> None:
    """Refuse a path that is another directory in every attempt of the run.

    :param who: The writer or reader, as the beginning of the message.
    :param source: Format of the sink, or of the source.
    :param path: As the script gave it; Spark judges ``None`` and an empty one.
    :param reads: Whether it is the input of a stream.
    :raises ApplicationRefusedError: The path is relative.
    """
    if path and is_relative(source, path):
        does = "reads a stream from" if reads else "writes to"
        lost = "would not find its files" if reads else "would lose its rows"
        raise ApplicationRefusedError(
            f"{who} {does} the relative path {path!r}; here that is {_resolved(path)}, and another directory in "
            f"every other attempt, so a recovery {lost}",
            next_step=f"Write it as an absolute path, for example {'/data/' + os.path.basename(path)!r}",  # noqa: PTH119  # of any URI
        )


def _resolved(path: str) -> str:
    return os.path.abspath(split(path).path)  # noqa: PTH100  # links stay as they are


log = logging.getLogger(__name__)

OPTION = "checkpointlocation"  # as the notes have it


def take_location(session: Any, location: str) -> str | None:
    """Give a session the job's location; return the script's own location, ``None`` without one.

    :param location: URI of the epoch's working directory.
    """
    found: str | None = session.conf.get(CHECKPOINT_LOCATION, None)
    if found == location:
        return None
    session.conf.set(CHECKPOINT_LOCATION, location)
    return found


class OwnLocations:
    """Checks the locations that the queries of a run name.

    :param reach: Access to the file systems of the locations.
    :param root: The location in the Spark conf of the job, parent of all queries' locations; ``None`` without one.
    :param begins: Whether a query without a batch in the job starts without a past, and its user has not requested it.
    """

    def __init__(self, reach: StorageAccess, *, root: str | None = None, begins: bool = False) -> None:
        self._reach = reach
        self._root = root
        self._begins = begins

    def check(
        self, query: str, noted: WriterNotes, root: str | None, sink: str | None, *, empty: bool, restored: bool = False
    ) -> None:
        """Refuse a query that would start without its existing past.

        :param root: The location that the script gave to its session.
        :param sink: The name of its sink in a request to adopt a checkpoint.
        :param empty: Whether the query has no batch in the job.
        :param restored: Whether the run continues from a checkpoint, in which other queries have their past.
        :raises ApplicationRefusedError: It would; names the two ways to continue.
        """
        if root is not None:  # the session no longer has it: the following queries are also below it
            self._root = root
        root = self._root
        own = noted.options.get(OPTION)
        if own is None and root is None:
            return
        own = own if own is not None else f"{str(root).rstrip('/')}/{query}"
        if not (self._begins and empty):
            log.info("query %s: its own checkpointLocation %s is not used", query, own)
            return
        try:
            committed = self._committed(own)
        except (HaError, OSError) as error:
            reason = f"which cannot be read ({error})"
        else:
            if committed < 0:
                log.info("query %s: its own checkpointLocation %s is not used; it holds no batch", query, own)
                return
            reason = f"which holds its batches up to {committed}"
        raise ApplicationRefusedError(
            f"query {query!r} sets checkpointLocation {own!r}, {reason}, and the job has no batch of this query: it "
            "would start from nothing",
            next_step=beside_other_queries(query, own, sink)
            if restored
            else from_own_location(query, own, sink, others=self._beside(own, query, root)),
        )

    def _committed(self, location: str) -> int:
        return progress(self._reach.tree(output_place(location))).committed

    def _beside(self, own: str, query: str, root: str | None) -> dict[str, str]:
        """Return the checkpoints of the other queries below the same root: they have to be adopted together."""
        if root is None or own != f"{root.rstrip('/')}/{query}":
            return {}
        try:
            place = output_place(root)
            tree = self._reach.tree(place)
            found = (name for name in queries(tree) if name != query and progress(tree / name).committed >= 0)
            return {name: f"{place}/{name}" for name in found}
        except (HaError, OSError):
            return {}  # the own location is known, and its adoption reports the missing ones
