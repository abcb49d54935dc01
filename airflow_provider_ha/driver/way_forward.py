"""The parameters to submit instead, for a script that brings its own checkpoint, or an output with a past.

The checkpoint is adopted (``docs/how-to/adopt-a-checkpoint.md``): the job continues from it without losing or
duplicating rows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from airflow_provider_ha.checkpoints.connectors.places import output_place
from airflow_provider_ha.errors import ConfigurationError


# As Python quotes the file of an OSError, and as Spark names it.
_PATH = re.compile(r"\[Errno 2\] No such file or directory: '([^']+)'|does not exist: (\S+?)\.?(?: |$)")
_EVERY_QUERY = "with every query of the script in it"


def from_own_location(query: str, location: str, sink: str | None, *, others: Mapping[str, str] | None = None) -> str:
    """Return the next step for a query whose own checkpoint location holds its past.

    :param location: As the script wrote it.
    :param sink: Output directory of its file sink, or the format of another sink; ``None`` when it is not known.
    :param others: Query -> checkpoint of the other queries next to it.
    """
    fresh = "with start_from='fresh' to begin from nothing"
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
        "Remove that location from the script or the conf to begin the query from nothing, or make the query a job "
        f"with another id, submitted with {parameters({query: place}, {query: sink})}, to continue from it"
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
