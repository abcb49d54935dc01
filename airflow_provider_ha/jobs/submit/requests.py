"""Requests to a job, as values. Two requests with the same ``request_id`` are the same request."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from enum import Enum
from pathlib import PurePosixPath

from airflow_provider_ha.checkpoints.restore.restore_point import parse_restore_point
from airflow_provider_ha.checkpoints.store.retention_policy import max_age_of
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.query_names import QueryDirectory, is_query_directory
from airflow_provider_ha.uris import split


LATEST = "latest"
FRESH = "fresh"
_MUCH_LATER = datetime(9000, 1, 1, tzinfo=timezone.utc)


class LostRunPolicy(str, Enum):
    """Policy for a live run of another, different request that has lost its driver.

    ``RECOVER`` continues that run with its own graph. ``RESTART`` ends it and creates the requested run, in the same
    transaction.
    """

    RECOVER = "recover"
    RESTART = "restart"


def named_directories(start_from: str | Mapping[str, str]) -> Mapping[str, str]:
    """Return query -> directory if *start_from* names directories; an empty mapping if it is a word.

    :param start_from: A path whose last name is the query's, or query -> path.
    """
    if not isinstance(start_from, str):
        return dict(start_from)
    if "/" not in start_from:
        return {}
    last = PurePosixPath(split(start_from).path).name
    # This package's directories have an encoded query name; any other directory has the query's own name.
    return {QueryDirectory(last) if is_query_directory(last) else last: start_from}


def check_start(start_from: str | Mapping[str, str], *, words: Collection[str] = (), directories: bool = False) -> None:
    """Refuse a text that is no start. A moment may be in the future: it may have passed by the time of the request.

    :param words: Other accepted words.
    :param directories: Whether directories are accepted.
    :raises ConfigurationError: The text is no start.
    """
    if start_from not in words and not (directories and named_directories(start_from)):
        parse_restore_point(str(start_from), now=_MUCH_LATER)


def savepoint_arguments(
    schedule: str | None, retain: int | None, retain_days: float | None, label: str
) -> dict[str, object]:
    """Return the arguments of an operation that takes a savepoint.

    :raises ConfigurationError: An argument is invalid, or a text has unprintable characters, which manifests refuse.
    """
    for name, word in (("schedule", schedule), ("label", label)):
        if not (word or "").isprintable():
            raise ConfigurationError(
                f"{name} {word!r} has characters that cannot be shown", next_step="Write it in one line, without tabs"
            )
    if retain is not None and retain < 1:
        raise ConfigurationError(
            f"retain={retain} keeps no savepoint", next_step="Use 1 or more: the newest savepoint always stays"
        )
    max_age_of(retain_days)
    for name, limit in (("retain", retain), ("retain_days", retain_days)):
        if limit is not None and not schedule:
            raise ConfigurationError(
                f"{name} requires a schedule: only savepoints of a schedule are ever removed",
                next_step="Name the schedule that the savepoint belongs to",
            )
    return {"schedule": schedule, "retain": retain, "retain_days": retain_days, "label": label}


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedRun:
    """The run of a request.

    :param run: Number of the run.
    :param attempt: Newest submission of the run to the engine.
    :param created: Whether this call created the run; ``False`` if an earlier one did.
    """

    job_id: str
    run: int
    attempt: int
    created: bool
