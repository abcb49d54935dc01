"""Names of queries: the script's own or derived from an output, and the names started by the run.

Checkpoints, epochs and savepoints of a query are found by its name, so it has to be the same at every start. Two
queries cannot write to one output, so the output is a good name: a path, a table, a topic. Without such an output
(``foreachBatch``), the checkpoint location that the script sets is used: two queries cannot share it, and plain Spark
also identifies the query by it. The name of a function is unsuitable: one function often serves several queries in
turn.

A script that is run again starts the same queries again. A script that makes a new name with every start (a name with a
time in it) leaves its previous query behind, with its state, and starts without a past: that is refused.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from airflow_provider_ha.checkpoints.areas.working_records import StartedQueries, read_started, write_started
from airflow_provider_ha.checkpoints.model import QuerySink, QuerySources
from airflow_provider_ha.checkpoints.sinks.sink_registry import name_after, type_of_format
from airflow_provider_ha.checkpoints.sinks.unread_sinks import DEBUG_FORMATS
from airflow_provider_ha.checkpoints.spark.tree import WritableTree
from airflow_provider_ha.driver.queries.script_paths import OPTION
from airflow_provider_ha.driver.queries.writer_notes import WriterNotes, notes
from airflow_provider_ha.errors import ApplicationRefusedError
from airflow_provider_ha.query_names import query_directory


class StartLedger:
    """The record of a working directory. Thread-safe.

    :param directory: The working directory of this epoch.
    :ivar before: The starts of earlier epochs of the run.
    """

    def __init__(self, directory: WritableTree) -> None:
        self._directory = directory
        self.before = read_started(directory) or StartedQueries()
        self._now = self.before
        self._lock = threading.Lock()

    @property
    def names(self) -> frozenset[str]:
        """Names of the queries that the run's script has started, in any of its epochs."""
        return frozenset(self._now.sinks)

    def note(self, name: str, sink: QuerySink, sources: QuerySources | None = None) -> None:
        """Note a query before it is started. The ids of its topics stay as they were noted first.

        :raises StorageUnavailableError: It could not be written; the query must not be started.
        """
        with self._lock:
            known = self._now.sources(name).topics
            said = (sources or QuerySources()).model_copy(update={"topics": known})
            self._put(self._now.including(name, sink, said))

    def note_topics(self, name: str, ids: Mapping[str, str]) -> None:
        """Note the ids of topics that a query reads; a topic that has an id keeps it.

        :raises StorageUnavailableError: They could not be written.
        """
        with self._lock:
            self._put(self._now.with_topics(name, {**ids, **self._now.sources(name).topics}))

    def sources(self, name: str) -> QuerySources:
        """Return the noted sources of a query."""
        return self._now.sources(name)

    def complete(self) -> None:
        """Note that the script has made all its starts.

        :raises StorageUnavailableError: It could not be written.
        """
        with self._lock:
            self._put(self._now.model_copy(update={"complete": True}))

    def _put(self, wanted: StartedQueries) -> None:
        if wanted != self._now:
            write_started(self._directory, wanted)
            self._now = wanted


def check_new_name(name: str, before: StartedQueries, *, expected: Collection[str], begun: Collection[str]) -> None:
    """Refuse a new query of a run whose driver was lost, while a query that the run had has not come back.

    A script that was lost before it came to this query is not refused: either it has started its earlier ones again, or
    it had not been seen to wait, so that there may have been more. Display queries, into a console or into memory, may
    come and go.

    :param before: The starts of earlier epochs of the run.
    :param expected: Names of the queries that the working directory was made with.
    :param begun: Names of the queries that the script has begun to start in this epoch.
    :raises ApplicationRefusedError: It would start without a past, and the other one would be left behind.
    """
    known = {name for name, sink in before.sinks.items() if (sink.format or "").lower() not in DEBUG_FORMATS}
    missing = sorted(known - set(begun))
    if not before.complete or not missing or name in known or name in expected:
        return
    raise ApplicationRefusedError(
        f"the script starts query {name!r}, which the run did not have before its driver was lost; it had "
        f"{', '.join(map(repr, sorted(known)))}, and {', '.join(map(repr, missing))} has not been started again",
        next_step="Give every query the same name at each start of the script, or submit the job with "
        "allow_new_queries=True",
    )


_PACKAGE = Path(__file__).parents[2]


def name_query(writer: Any, path: str | None) -> str:
    """Return the query's name as it is written in directories and records (:mod:`~airflow_provider_ha.query_names`).

    An unnamed writer gets a name from its sink, for this and every later start.

    :param path: The argument of ``start()``.
    :raises ApplicationRefusedError: The query is unnamed, and its sink does not provide a name.
    """
    noted = notes(writer)
    if path is not None:
        noted.options["path"] = path
    if not noted.name:
        default = writer._spark.conf.get("spark.sql.sources.default")  # noqa: SLF001  # it has no public name
        writer.queryName(_after_its_sink(noted, default))
        noted.is_named_by_sink = True
    assert noted.name is not None, "it was named just now"  # noqa: S101  # for the type checker
    return query_directory(noted.name)


def refuse_taken(noted: WriterNotes, taken: frozenset[str]) -> None:
    """Refuse a query whose name is taken.

    :param taken: Names of the queries that run, or must not be started again.
    :raises ApplicationRefusedError: Its name is among them.
    """
    if noted.name is None or query_directory(noted.name) not in taken:
        return
    what = f"two streaming queries of a run are named {noted.name!r}"
    if noted.is_named_by_sink:
        what = (
            "two streaming queries of a run write to the same output, or set the same checkpoint location, and have "
            f"no name ({noted.name!r} for both)"
        )
    raise ApplicationRefusedError(
        f"{what}; they would share a checkpoint",
        next_step=f"Give every query a separate output and name{_line_of_script()}; stop a query before it is started "
        "again under its name",
    )


def refuse_other_case(name: str, others: Iterable[str]) -> None:
    """Refuse a query whose name differs from another query's in upper and lower case only.

    :param name: As it is written in directories.
    :raises ApplicationRefusedError: There is such a query.
    """
    for other in others:
        if other != name and other.casefold() == name.casefold():
            raise ApplicationRefusedError(
                f"two streaming queries of a run are named {other!r} and {name!r}; they would share a checkpoint "
                "on a file system that ignores case",
                next_step=f"Rename either query{_line_of_script()}",
            )


def _after_its_sink(noted: WriterNotes, default_format: str) -> str:
    source = noted.sink or default_format
    identity = noted.table or type_of_format(source).identity(noted.options) or noted.options.get(OPTION)
    if identity is None:
        raise ApplicationRefusedError(
            f"a streaming query has no name, and a {source} sink gives it none that stays the same, so its checkpoint "
            "could not be found again",
            next_step=f'Add .queryName("...") to its writeStream{_line_of_script()}',
        )
    return name_after(identity)


def _line_of_script() -> str:
    """Return the script's line that starts the query; empty if unknown."""
    frame = sys._getframe()  # noqa: SLF001  # the public functions read the source of each frame
    while frame is not None:
        file = Path(frame.f_code.co_filename)
        if file.is_file() and not file.is_relative_to(_PACKAGE) and "pyspark" not in file.parts:
            return f" ({file.name}, line {frame.f_lineno})"
        if frame.f_back is None:
            return ""
        frame = frame.f_back
    return ""
