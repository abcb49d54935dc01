"""Savepoints of live checkpoints, on a disk or on S3: no ZooKeeper, no Airflow, no pause.

Invariant: one cut for all queries, chosen before the first file is copied, in the order of the arguments. Downstream
first: the upstream queries are read later, so they have written everything that a downstream query has read. The
savepoint appears only after its copies were verified.

Invariant of a draft in place (:class:`TreeDraft`): a directory without a manifest is not a savepoint. A copy is
digested while it is read, and read again before a pointer names it; the storage detects a Spark file that is replaced
during its copy. A leader that was deposed during its copy replaces no file that its successor has copied to the same
place, except files of more than 1 MiB, which are too large for a conditional create: RocksDB tables, whose bytes are
the same under one name, and snapshots of the HDFS-backed provider, where this is a limitation.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

from airflow_provider_ha.checkpoints.areas.pins import SINKS, closure_of, purged, refuse_reserved
from airflow_provider_ha.checkpoints.areas.working_records import readable
from airflow_provider_ha.checkpoints.model import ManifestFile, QueryCut, QuerySink, QuerySources, Savepoint, SinkKind
from airflow_provider_ha.checkpoints.sinks.file_sink_log import LOG, log_files
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import progress
from airflow_provider_ha.checkpoints.spark.checksums import digest_of
from airflow_provider_ha.checkpoints.spark.files import FileGoneError, names, opened
from airflow_provider_ha.checkpoints.spark.metadata_log import entry_names
from airflow_provider_ha.checkpoints.spark.object_tree import each
from airflow_provider_ha.checkpoints.spark.releases import installed_version, release
from airflow_provider_ha.checkpoints.spark.tree import Tree, WritableTree
from airflow_provider_ha.checkpoints.store.savepoints.manifest import MANIFEST, SequentialReader
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_layout import (
    At,
    Dir,
    SavepointCopies,
    SavepointLayout,
    SavepointSource,
    TornError,
)
from airflow_provider_ha.clock import Clock, SystemClock, new_id
from airflow_provider_ha.errors import CheckpointMissingError, ConfigurationError
from airflow_provider_ha.names import check_query


# Each attempt fails by a purge, or a replaced file, in the milliseconds of a copy: a query that does so five times
# keeps too few batches.
ATTEMPTS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class CutPart(Generic[Dir]):
    """A query's part of a cut.

    :param sink_log: The log of its file sink; ``None`` for any other sink.
    """

    directory: Dir
    batch: int
    sink: QuerySink
    sink_log: Dir | None = None
    sources: QuerySources = field(default_factory=QuerySources)


def take(
    sources: Sequence[SavepointSource[At]],
    layout: SavepointLayout[At, Dir],
    *,
    label: str = "",
    spark_version: str | None = None,
    clock: Clock | None = None,
) -> Savepoint:
    """Make a savepoint of all *sources*; their queries may be running.

    :param sources: Downstream first.
    :param spark_version: The release that will start from it; the installed one by default.
    :raises CheckpointMissingError: A query lacks the batch, or purged files during each attempt.
    :raises CheckpointCorruptError: A file of a checkpoint, or of a sink's log, is damaged.
    :raises ConfigurationError: The sources or the layout cannot be used.
    :raises ObjectExistsError: A savepoint with that name exists.
    """
    release(spark_version)
    _check_names(sources)
    layout.check(sources)
    attempts = Retrying(
        stop=stop_after_attempt(ATTEMPTS),
        retry=retry_if_exception_type((CheckpointMissingError, TornError)),
        reraise=True,
    )
    for source in sources:
        _batch(layout, source)

    def attempt() -> Savepoint:
        cut = {source.query: _batch(layout, source) for source in sources}
        created_at = (clock or SystemClock()).now()
        head = Savepoint(
            savepoint_id=f"{created_at:%Y%m%dT%H%M%SZ}-{new_id()[:8]}",
            created_at=created_at,
            label=label,
            queries={},
            files={},
            spark_version=spark_version or installed_version(),
        )
        with layout.draft() as draft:
            parts = {source.query: _part(layout, source, cut[source.query]) for source in sources}
            return draft.seal(gather(draft, head, parts))

    try:
        return attempts(attempt)
    except CheckpointMissingError as error:
        if all(source.batch is not None for source in sources):
            raise
        raise CheckpointMissingError(
            f"Spark purged files during the copy {ATTEMPTS} times: {error.message}",
            next_step="Let Spark keep more batches (spark.sql.streaming.minBatchesToRetain), or use hard links for "
            "a local directory",
        ) from error


def gather(draft: SavepointCopies[Dir], head: Savepoint, parts: Mapping[str, CutPart[Dir]]) -> Savepoint:
    """Copy the closures of all queries of a cut; return the completed manifest.

    :raises CheckpointMissingError: Spark purged a batch of the cut during the copy: take a newer cut.
    :raises CheckpointCorruptError: A file of the closure is damaged.
    """
    for query in parts:
        refuse_reserved(query)
    files = draft.bring(_needed(parts))
    # Sizes of the copies: another attempt may have rewritten a file since the closure was read.
    sizes: dict[str, dict[str, int]] = {query: {} for query in parts}
    for name, file in files.items():
        query, _, inner = name.partition("/")
        if query in sizes:
            sizes[query][inner] = file.size
    return head.model_copy(
        update={
            "queries": {query: _described(draft, files, query, part, sizes[query]) for query, part in parts.items()},
            "files": files,
            "digested": all(file.digested_by for file in files.values()),
        }
    )


def _needed(parts: Mapping[str, CutPart[Dir]]) -> Iterator[tuple[str, Dir, str]]:
    """Yield the closures of all queries, then the logs of their sinks; each is read lazily."""
    for query, part in parts.items():
        # The closure lists logs before state: all of its files exist once commits/N does; later batches only add files.
        for name in closure_of(part.directory, part.batch):
            yield f"{query}/{name}", part.directory, name
    for query, part in parts.items():
        if part.sink_log is not None:
            for name in log_files(part.sink_log, part.batch):
                yield f"{SINKS}/{query}/{LOG}/{name}", part.sink_log, name


def _described(
    draft: SavepointCopies[Dir],
    files: Mapping[str, ManifestFile],
    query: str,
    part: CutPart[Dir],
    sizes: dict[str, int],
) -> QueryCut:
    # From the copy, so that the manifest's entries match the copied files.
    entries = tuple(readable(draft.copied(files, query), after=part.batch - 1)) if part.batch >= 0 else ()
    return QueryCut(batch=part.batch, sink=part.sink, entries=entries, files=sizes, sources=part.sources)


def _part(layout: SavepointLayout[At, Dir], source: SavepointSource[At], batch: int) -> CutPart[Dir]:
    directory = layout.tree(source.directory)
    if source.sink is None:
        return CutPart(directory=directory, batch=batch, sink=QuerySink(kind=SinkKind.OTHER))
    log = layout.sink_log(source.sink)
    newest = max(entry_names(names(log)), default=-1)
    sink = QuerySink(kind=SinkKind.FILE, path=layout.uri(source.sink), max_batch=newest)
    return CutPart(directory=directory, batch=batch, sink=sink, sink_log=log)


def _batch(layout: SavepointLayout[At, Dir], source: SavepointSource[At]) -> int:
    if source.batch is not None:
        return source.batch
    committed = progress(layout.tree(source.directory)).committed
    if committed < 0:
        raise CheckpointMissingError(
            f"query {source.query!r} has not committed a batch yet in {source.directory}",
            next_step="Check the path, or wait for its first batch",
        )
    return committed


def _check_names(sources: Sequence[SavepointSource[At]]) -> None:
    queries = [check_query(source.query) for source in sources]
    if not sources or len(set(queries)) < len(queries):
        raise ConfigurationError(
            f"a savepoint needs one name per query: {len(queries)} queries, {len(set(queries))} names",
            next_step="Name at least one query, and each only once",
        )
    for query in queries:
        refuse_reserved(query)


_IN_MEMORY = 1 << 20  # bytes: a larger file is buffered on the local disk


class TreeDraft:
    """A savepoint in an empty directory of a work area, without its manifest yet."""

    def __init__(self, target: WritableTree) -> None:
        self._target = target

    def bring(self, files: Iterable[tuple[str, Tree, str]]) -> dict[str, ManifestFile]:
        """Copy files concurrently; return the manifest entries in the given order."""
        wanted = list(files)
        return dict(zip((name for name, _, _ in wanted), each(self._copied, wanted), strict=True))

    def copied(self, files: Mapping[str, ManifestFile], query: str) -> Tree:  # noqa: ARG002  # interface
        """Return the copied part of a query."""
        return self._target.fresh() / query

    def describe(self, savepoint: Savepoint) -> Savepoint:
        """Write and return the manifest."""
        self._target.create(MANIFEST, savepoint.to_bytes())
        return savepoint

    def _copied(self, wanted: tuple[str, Tree, str]) -> ManifestFile:
        name, directory, inner = wanted
        try:
            with opened(directory, inner) as file, tempfile.SpooledTemporaryFile(_IN_MEMORY) as held:
                described = digest_of(SequentialReader(file), held.write)
                held.seek(0)
                if described.size <= _IN_MEMORY:
                    self._target.create(name, held.read())
                    return described
                held.rollover()
                held.flush()
                self._target.upload(name, Path(f"/proc/self/fd/{held.fileno()}"))
                return described
        except FileGoneError:
            raise purged(f"{directory}/{inner}") from None
