"""Checks of names before they become znodes and paths.

A job id is a directory, a znode and a word in messages. Names from users or from storage are checked here before such a
use.
"""

from __future__ import annotations

import hashlib
import re

from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.query_names import RESERVED, is_query_directory


# Children of the cluster node that are not jobs.
RESERVED_JOB_IDS = frozenset({"resource_manager_lock", "to_delete", "quarantine", "zookeeper"})

SHORT_NAME = 40  # characters: fits into a column, and is short enough to copy by hand
SAVEPOINT_ID_LIMIT = 128 - len("savepoint-")
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9])?")


def check_job_id(job_id: str) -> str:
    """Return *job_id* if it is valid.

    :raises ConfigurationError: It is reserved or not 1 to 128 letters, digits, dots, dashes or underscores.
    """
    check_name(job_id, "job id")
    if job_id in RESERVED_JOB_IDS:
        raise ConfigurationError(
            f"job id {job_id!r} is reserved", next_step=f"Choose another one; reserved are {sorted(RESERVED_JOB_IDS)}"
        )
    return job_id


def check_name(name: str, what: str) -> str:
    """Return *name* if it is safe as a znode and as a file name.

    :param name: Name to check.
    :param what: Role of the name, for the error: ``"job id"``, ``"query name"``.
    :raises ConfigurationError: The name is not safe.
    """
    if not _NAME.fullmatch(name) or ".." in name:
        raise ConfigurationError(
            f"{what} {name!r} is not a valid name",
            next_step="Use 1 to 128 letters, digits, dots, dashes or underscores; the first and last a letter or digit",
        )
    return name


def check_query(written: str) -> str:
    """Return the written form of a query in a record, if it is safe as a file name.

    :raises ConfigurationError: It is not the written form of a query.
    """
    if written in RESERVED:
        raise ConfigurationError(f"query name {written!r} is reserved", next_step="Give the query another name")
    if not is_query_directory(written):
        raise ConfigurationError(f"query name {written!r} of a record is not in the form that this package writes")
    return written


def check_savepoint_id(savepoint_id: str) -> str:
    """Return *savepoint_id* if it is valid; its length leaves room for the prefix that a lease adds.

    :raises ConfigurationError: It is not a safe name, or too long.
    """
    check_name(savepoint_id, "savepoint id")
    if len(savepoint_id) > SAVEPOINT_ID_LIMIT:
        raise ConfigurationError(
            f"savepoint id {savepoint_id!r} has {len(savepoint_id)} characters",
            next_step=f"Use at most {SAVEPOINT_ID_LIMIT} characters",
        )
    return savepoint_id


def short_name(name: str) -> str:
    """Return a safe name in at most 40 characters: a longer one keeps its beginning, and gets a digest of the whole.

    A name always has the same short name, so objects made under it are found again.
    """
    if len(name) <= SHORT_NAME:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:12]
    return f"{name[: SHORT_NAME - len(digest) - 1].rstrip('-._')}-{digest}"


def safe_segment(text: str) -> str:
    """Return *text* as one path segment: unsafe parts become dashes, and a digest keeps different texts different."""
    cleaned = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._") or "x"
    if cleaned == text and len(text) <= 100:  # noqa: PLR2004  # leaves room for suffixes below 128
        return text
    return f"{cleaned[:80]}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def task_request(dag_id: str, run_id: str, task_id: str, map_index: int | None = None) -> str:
    """Return the id of a task's request in a DAG run: safe as a znode, and the same for every try of the task."""
    index = "" if map_index is None or map_index < 0 else f"/{map_index}"
    return safe_segment(f"{dag_id}/{run_id}/{task_id}{index}")
