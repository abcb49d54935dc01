"""A savepoint of any checkpoint directories that Spark works in: no ZooKeeper, no Airflow, no pause.

Invariant: one cut for all queries, chosen before the first file is copied, in the order in which they were named.
Downstream first: whatever a query has read, the ones it reads from have written by the time they are looked at.
The directory appears when its manifest is written and every byte was read again, never before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

from airflow_provider_ha.checkpoints.connectors.file_sink_log import FileSinkLog
from airflow_provider_ha.checkpoints.format.layout import progress
from airflow_provider_ha.checkpoints.format.releases import installed_version, release
from airflow_provider_ha.checkpoints.model import QueryCut, QuerySink, Savepoint, SinkKind
from airflow_provider_ha.checkpoints.savepoints.digest_cache import CACHE, DigestCache
from airflow_provider_ha.checkpoints.savepoints.savepoint_files import copy_cut, problems, write_manifest
from airflow_provider_ha.checkpoints.savepoints.taking import Copying, Linking
from airflow_provider_ha.checkpoints.trees.attempts import directory_attempt
from airflow_provider_ha.checkpoints.trees.copying import shares_inode
from airflow_provider_ha.checkpoints.trees.local_tree import LocalTree
from airflow_provider_ha.checkpoints.working.batch_log import readable
from airflow_provider_ha.checkpoints.working.pins import refuse_reserved
from airflow_provider_ha.clock import Clock, SystemClock, new_id
from airflow_provider_ha.errors import (
    CheckpointCorruptError,
    CheckpointMissingError,
    ConfigurationError,
    StorageUnavailableError,
)
from airflow_provider_ha.names import check_name


# Each needs a purge, or a replaced file, in the milliseconds of a copy: a query that does it five times is not slow,
# it keeps too few batches.
ATTEMPTS = 5


class TornCopyError(CheckpointCorruptError):
    """What was copied does not fit together: a file was replaced between two copies. A newer cut is taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointSource:
    """One query.

    :param query: Its name in the savepoint.
    :param directory: Its checkpoint directory.
    :param batch: N; ``None`` for the newest committed one.
    :param sink: Output directory of its file sink, whose log belongs to the cut; ``None`` for any other sink.
    """

    query: str
    directory: Path
    batch: int | None = None
    sink: Path | None = None


def take(
    sources: Sequence[SavepointSource],
    target: Path,
    *,
    link: bool = False,
    digests: bool = True,
    label: str = "",
    spark_version: str | None = None,
    clock: Clock | None = None,
) -> Savepoint:
    """Make the savepoint *target* of all *sources*; their queries may be running.

    :param sources: Downstream first.
    :param target: Directory of the savepoint; must not exist.
    :param link: Whether to make hard links where they are possible; the manifest says so.
    :param digests: Whether links are digested; then a file is read once, for the first savepoint that has it, and those
        that have a checksum of Spark's are not read at all. Copies always are.
    :param spark_version: The release that is to start from it; the installed one by default.
    :raises CheckpointMissingError: A query has no such batch, or purged what was copied again and again.
    :raises CheckpointCorruptError: A file of a checkpoint, or of a sink's log, is damaged.
    :raises ConfigurationError: The sources or the target cannot be used.
    :raises ObjectExistsError: The target exists.
    :raises StorageUnavailableError: Something could not be read or written.
    """
    release(spark_version)
    if not (link or digests):
        raise ConfigurationError(
            "a copy is digested on its way, so leaving that out saves nothing",
            next_step="Link instead of copy, or digest",
        )
    _check_sources(sources, target)
    attempts = Retrying(
        stop=stop_after_attempt(ATTEMPTS),
        retry=retry_if_exception_type((CheckpointMissingError, TornCopyError)),
        reraise=True,
    )
    for source in sources:
        _batch(source)
    try:
        return attempts(
            _attempt,
            sources,
            target,
            link=link,
            digests=digests,
            label=label,
            spark_version=spark_version or installed_version(),
            clock=clock or SystemClock(),
        )
    except CheckpointMissingError as error:
        if all(source.batch is not None for source in sources):
            raise
        raise CheckpointMissingError(
            f"what was to be copied was purged {ATTEMPTS} times: {error.message}",
            next_step="Let Spark keep more batches (spark.sql.streaming.minBatchesToRetain), or link instead of copy",
        ) from error


def _attempt(
    sources: Sequence[SavepointSource],
    target: Path,
    *,
    link: bool,
    digests: bool,
    label: str,
    spark_version: str,
    clock: Clock,
) -> Savepoint:
    cut = {source.query: _batch(source) for source in sources}
    sinks = {source.query: source.sink for source in sources if source.sink is not None}
    created_at = clock.now()
    with directory_attempt(target) as hidden:
        directories = {source.query: source.directory for source in sources}
        cache = DigestCache(target.parent / CACHE, hidden) if link and digests else None
        linking = Linking(cache) if link else None
        closures, taken = copy_cut(directories, hidden, cut, sinks, linking or Copying())
        savepoint = Savepoint(
            savepoint_id=f"{created_at:%Y%m%dT%H%M%SZ}-{new_id()[:8]}",
            job_id="",
            run=0,
            epoch=0,
            created_at=created_at,
            label=label,
            queries={
                query: QueryCut(
                    batch=batch,
                    sink=_sink(sinks.get(query)),
                    # From the copy: what the manifest says of the batch is what the copied files say.
                    entries=tuple(readable(LocalTree(hidden / query), after=batch - 1)),
                    files=closures[query],
                )
                for query, batch in cut.items()
            },
            files=taken,
            shares_inodes=linking is not None and any(shares_inode(hidden / name) for name in taken),
            digested=all(file.digested_by for file in taken.values()),
            graph="",
            spark_version=spark_version,
        )
        write_manifest(hidden, savepoint)
        # A link is the file that was digested: only what was written has to be read again.
        for problem in problems(hidden, savepoint, only=None if linking is None else linking.copied):
            raise TornCopyError(problem.path, problem.reason, next_step="Look with `spark-ha checkpoint verify`")
        if cache is not None:
            cache.save()
    return savepoint


def _batch(source: SavepointSource) -> int:
    if source.batch is not None:
        return source.batch
    committed = progress(LocalTree(source.directory)).committed
    if committed < 0:
        raise CheckpointMissingError(
            f"query {source.query!r} has not committed a batch yet in {source.directory}",
            next_step="Wait for its first batch",
        )
    return committed


def _sink(path: Path | None) -> QuerySink:
    if path is None:
        return QuerySink(kind=SinkKind.OTHER)
    return QuerySink(kind=SinkKind.FILE, path=str(path.absolute()), max_batch=FileSinkLog(path).max_batch())


def _check_sources(sources: Sequence[SavepointSource], target: Path) -> None:
    names = [check_name(source.query, "query name") for source in sources]
    if not sources or len(set(names)) < len(names):
        raise ConfigurationError(
            f"a savepoint needs one name per query: {len(names)} queries, {len(set(names))} names",
            next_step="Name at least one query, and each once",
        )
    place = target.resolve()
    for source in sources:
        refuse_reserved(source.query)
        if not LocalTree(source.directory).is_directory():
            raise StorageUnavailableError(
                f"checkpoint {source.directory} of query {source.query!r} is not a directory of this host",
                next_step="Check its path, and that its file system is mounted",
            )
        if place.is_relative_to(source.directory.resolve()):
            raise ConfigurationError(
                f"{target} lies in the checkpoint that is to be saved", next_step="Save it to another directory"
            )
