"""Pins: the closure of a cut under a checkpoint's own name, out of reach of Spark's purge.

Invariant: a pin is complete or absent, and for each file sink it includes the closure of the sink's log: a restore into
another output directory needs it long after Spark has deleted the old entries. Links cost 2 to 5 ms, less than
withdrawing a pointer would (spark-facts section 6), so every retained checkpoint is pinned.

Invariant: the working directory has all files that a query needs to start, or to be cut while it is not running. The
pin that it was restored from goes with the checkpoints of the job that owns it, perhaps before the script starts the
query.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from airflow_provider_ha.checkpoints.sinks.file_sink_log import LOG, log_files
from airflow_provider_ha.checkpoints.spark.atomic import building, link
from airflow_provider_ha.checkpoints.spark.closure import closure
from airflow_provider_ha.checkpoints.spark.files import FileGoneError, exists, names, read
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.spark.tree import Tree, WritableTree
from airflow_provider_ha.errors import CheckpointMissingError, ConfigurationError
from airflow_provider_ha.query_names import RESERVED


KEPT = ".restored"  # hidden: no query can have this name


# Directory of the sinks' logs, next to the directories of the queries; so no query may have this name.
SINKS = "sinks"


AnyPlace = TypeVar("AnyPlace", Path, Tree, WritableTree)


def sink_directory(root: AnyPlace, query: str) -> AnyPlace:
    """Return the directory of a file sink's log in the pin or savepoint *root*."""
    return root / SINKS / query


def pin(
    live: Path, target: Path, cut: Mapping[str, int], *, sinks: Mapping[str, Tree] | None = None
) -> dict[str, dict[str, int]]:
    """Link the closure of every query of *cut*; return query -> relative path -> size.

    :param live: Working directory, one directory per query; Spark may purge it at any time.
    :param target: Directory of the pin; must not exist.
    :param cut: Query -> N.
    :param sinks: Query -> log of its file sink, for queries that have one.
    :raises CheckpointMissingError: Spark purged a batch of the cut during the copy: take a newer cut.
    :raises CheckpointCorruptError: A file of the closure is damaged.
    :raises ObjectExistsError: The target exists.
    """
    files: dict[str, dict[str, int]] = {}
    with building(target) as hidden:
        for query, batch in cut.items():
            refuse_reserved(query)
            files[query] = closure_of(LocalTree(live / query), batch)
            for name in files[query]:
                _link(live / query / name, hidden / query / name)
        for source, entry, name in sink_files(cut, sinks or {}):
            if source.local_path is not None:
                _link(source.local_path / entry, hidden / name)
            else:
                LocalTree(hidden).write(name, read_entry(source, entry))
    return files


def closure_of(directory: Tree, batch: int) -> dict[str, int]:
    """Return the closure of a batch in a live directory: relative path -> size, in copy order.

    :raises CheckpointMissingError: Spark purged the batch: take a newer one.
    :raises CheckpointCorruptError: A file is damaged, or missing although the batch is not.
    """
    try:
        return closure(directory, batch, with_planned=False)
    except FileGoneError:
        # Spark's purge removes offsets/N-1 first, then the commit; state files outlive both.
        kept = [exists(directory, f"offsets/{batch - 1}") or batch == 0, exists(directory, f"commits/{batch}")]
        if batch < 0 or all(kept):
            raise
        raise purged(f"{directory}/offsets/{batch - 1}") from None


def sink_files(cut: Mapping[str, int], sinks: Mapping[str, Tree]) -> Iterator[tuple[Tree, str, str]]:
    """Yield the sink log files of a cut: the log, the name in it, and the name in a pin or savepoint.

    :raises CheckpointCorruptError: A log does not hold the closure of its query's batch.
    """
    for query, log in sinks.items():
        now = log.fresh()
        for entry in log_files(now, cut[query]):
            yield now, entry, f"{SINKS}/{query}/{LOG}/{entry}"


def read_entry(log: Tree, entry: str) -> bytes:
    """Return the bytes of a file of a sink's log.

    :raises CheckpointMissingError: It was purged since the log was listed: take a newer cut.
    """
    try:
        return read(log, entry)
    except FileGoneError:
        raise purged(f"{log}/{entry}") from None


def refuse_reserved(query: str) -> None:
    """Refuse the names that pins and savepoints use internally.

    :raises ConfigurationError: The query has such a name.
    """
    if query in RESERVED:
        raise ConfigurationError(f"query name {query!r} is reserved", next_step="Give the query another name")


def _link(source: Path, target: Path) -> None:
    try:
        link(source, target)
    except FileNotFoundError:
        raise purged(source) from None


def purged(path: str | Path) -> CheckpointMissingError:
    """Return the error for a file that was purged during a read: its caller takes a newer cut."""
    return CheckpointMissingError(
        f"{path} was purged while it was linked or copied",
        next_step="Take a newer cut; this one can no longer be kept",
    )


def kept_in(working: Tree) -> Tree | None:
    """Return the directory of the sink logs in a working directory, as in a pin; ``None`` without any."""
    kept = working.fresh() / KEPT
    return kept if kept.is_directory() else None


def keep_sink_logs(source: Tree, working: WritableTree) -> None:
    """Copy the logs of the pin, savepoint or earlier copy *source* into a new working directory, if any."""
    for query in names(source, SINKS):
        place = f"{SINKS}/{query}/{LOG}"
        for name in names(source, place):
            working.write(f"{KEPT}/{place}/{name}", read(source, f"{place}/{name}"))
