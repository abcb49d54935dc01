"""Detects a start of a query that failed because of its working directory.

Invariant: a lack of memory, of disk, of a connection or of an answer is never taken for damage (contract 6). A refusal
only makes the next attempt look for a checkpoint, which then decides whether it continues from one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote

from airflow_provider_ha.checkpoints.proof.answers import SparkError
from airflow_provider_ha.checkpoints.proof.refusals import is_refusal
from airflow_provider_ha.driver.error_text import links
from airflow_provider_ha.driver.evidence import failed_queries, text_of
from airflow_provider_ha.driver.queries import QueryRegistry
from airflow_provider_ha.errors import CheckpointCorruptError
from airflow_provider_ha.jobs.failures import Failure, FailureKind


_OF_STATE = re.compile(
    r"CANNOT_LOAD_STATE_STORE|CHECKPOINT_FILE_CHECKSUM|STATE_STORE_UNEXPECTED_EMPTY_FILE"
    r"|STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY|INVALID_CHECKPOINT"
)
_OF_A_FILE = re.compile(r"(?:FileNotFound|NoSuchFile|EOF|Checksum|MalformedInput|ZipException|ZstdIO)\w*\Z")


def refused_directory(script: BaseException | None, registry: QueryRegistry, key: str) -> bool:
    """Return whether Spark refused the working directory at the start of a query; never raises.

    :param script: The exception of the script; ``None`` when it ended normally.
    :param key: Key of the working directory.
    """
    try:
        return any(refuses(error, key) for error in _errors(script, registry))
    except Exception:  # noqa: BLE001  # the JVM may be gone: then it is unknown
        return False


def refused(failure: Failure, key: str, registry: QueryRegistry) -> Failure:
    """Return a failure as a failure of its working directory: it is no error of the application."""
    kind = FailureKind.UNKNOWN if failure.kind is FailureKind.APPLICATION else failure.kind
    pending = _pending(registry)
    query = next(iter(pending)) if failure.query is None and len(pending) == 1 else failure.query
    return failure.model_copy(update={"kind": kind, "refused": key, "query": query})


def refuses(error: BaseException, key: str) -> bool:
    """Return whether an error of a query's start is about the checkpoint below *key*. Pure."""
    if isinstance(error, CheckpointCorruptError):
        return True
    text = text_of(error)
    found = [SparkError(error_class=link.condition or link.name, message=link.message) for link in links(text)]
    # guard: outages-refuse-the-directory
    if not is_refusal(found):
        return False
    if any(_OF_STATE.search(each.error_class) for each in found):
        return True
    of_a_file = any(_OF_A_FILE.search(each.error_class) for each in found)
    return of_a_file and f"{key}/" in unquote(text)


def _errors(script: BaseException | None, registry: QueryRegistry) -> Iterator[BaseException]:
    for query, error in failed_queries(registry.started):
        if query.status().committed <= query.committed_before:
            yield error
    # Checks and replays before the start of a query fail in the script's own call.
    if script is not None and (_pending(registry) or isinstance(script, CheckpointCorruptError)):
        yield script


def _pending(registry: QueryRegistry) -> frozenset[str]:
    """Return the queries whose start has begun, and is not complete."""
    return frozenset(registry.begun) - {query.name for query in registry.started}
