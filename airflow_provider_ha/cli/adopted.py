"""Options for checkpoint directories from elsewhere, and for the sinks of their queries."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_ha.checkpoints.connectors.places import is_hdfs, is_s3, output_place
from airflow_provider_ha.cli.savepoint_target import before_a_place, of_query, path_of
from airflow_provider_ha.control.job.requests import LATEST
from airflow_provider_ha.errors import ConfigurationError


_PLACE = re.compile(r"[./]|\w[\w+.-]*:/")  # beginning of a path or a URI


@dataclass(frozen=True, slots=True)
class Adopted:
    """Query -> checkpoint directory, and query -> sink; empty without a path."""

    directories: dict[str, str]
    sinks: dict[str, str]


@dataclass(frozen=True, slots=True)
class StartWords:
    """Parsed ``--start-from``.

    :param word: Checkpoint of a job.
    :param directories: ``[QUERY=]PATH`` words, instead of *word*; may be empty.
    """

    word: str = LATEST
    directories: tuple[str, ...] = ()


def start_words(words: Sequence[str] | None) -> StartWords:
    """Parse the words of ``--start-from``.

    :raises ConfigurationError: They contradict each other.
    """
    named = words or ()
    if any("/" in word for word in named):
        if other := [word for word in named if "/" not in word]:
            raise ConfigurationError(
                f"--start-from {other[0]} names no directory, and another one does", next_step="Use one of them"
            )
        return StartWords(directories=tuple(named))
    if len(named) > 1:
        raise ConfigurationError(
            f"--start-from {' '.join(named)} names no directories",
            next_step="Write one word, or one [QUERY=]PATH for each query",
        )
    return StartWords(named[0]) if named else StartWords()


def adopted(adopt: Sequence[str], sinks: Sequence[str], source_job: str | None = None) -> Adopted:
    """Return the named checkpoint directories and sinks.

    :raises ConfigurationError: A word cannot be parsed, or contradicts another.
    """
    if adopt and source_job is not None:
        raise ConfigurationError(
            "--start-from names directories, and --from-job the checkpoints of a job", next_step="Use one of them"
        )
    found: dict[str, str] = {}
    for value in adopt:
        name, text = _named(value)
        place = _place(text)
        if found.setdefault(name or place.rpartition("/")[2], place) != place:
            raise ConfigurationError(f"query {name!r} is named twice", next_step="Name each query once, as QUERY=PATH")
    return Adopted(found, dict(_sink(value, list(found)) for value in sinks))


def _place(text: str) -> str:
    """Return a place that is independent of the working directory."""
    if is_s3(text) or is_hdfs(text):
        return output_place(text)
    return str((path_of(text) or Path(text)).resolve())


def _sink(value: str, queries: list[str]) -> tuple[str, str]:
    name, text = of_query(value, queries) or _named(value)
    if name is None and len(queries) != 1:
        raise ConfigurationError(
            f"sink {value!r} names no query", next_step="Write it as QUERY=PATH, of a directory that --start-from names"
        )
    return name or queries[0], text


def _named(value: str) -> tuple[str | None, str]:
    """Return name and rest of ``NAME=REST``; a path may contain an equals sign, and a name a slash."""
    if not _PLACE.match(value) and (named := before_a_place(value)) is not None:
        return named
    name, equals, rest = value.partition("=")
    return (name, rest) if equals and name and "/" not in name else (None, value)
