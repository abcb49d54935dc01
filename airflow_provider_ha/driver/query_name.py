"""The name of a query: the script's, or a name derived from its output.

Checkpoints, epochs and savepoints of a query are found by its name, so it has to be the same at every start. Two
queries cannot write to one output, so the output is a good name: a path, a table, a topic. Without such an output
(``foreachBatch``), the checkpoint location that the script sets is used: two queries cannot share it, and plain Spark
also identifies the query by it. The name of a function is unsuitable: one function often serves several queries in
turn.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from airflow_provider_ha.checkpoints.connectors.sink_names import name_after
from airflow_provider_ha.checkpoints.connectors.sinks import type_of_format
from airflow_provider_ha.driver.own_location import OPTION
from airflow_provider_ha.driver.writer_notes import WriterNotes, notes
from airflow_provider_ha.errors import ApplicationRefusedError
from airflow_provider_ha.query_names import query_directory


_PACKAGE = Path(__file__).parents[1]


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
    what = f"two streaming queries of one run are named {noted.name!r}"
    if noted.is_named_by_sink:
        what = (
            "two streaming queries of one run write to the same output, or set the same checkpoint location, and have "
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
                f"two streaming queries of one run are named {other!r} and {name!r}; they would share a checkpoint "
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
