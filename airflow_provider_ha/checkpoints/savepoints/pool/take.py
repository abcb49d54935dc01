"""A savepoint of checkpoints on S3 while their queries run: no byte passes through this process.

Invariant: one cut for all queries, downstream first; every file as it was when it was listed, for the server copies
only what still has that etag. The manifest is created last, once each query was judged to be restorable from the copies
themselves. A process that is killed before leaves members of the pool that no manifest names: a sweep collects them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

from airflow_provider_ha.checkpoints.connectors.file_sink_log import LOG
from airflow_provider_ha.checkpoints.format.closure import closure
from airflow_provider_ha.checkpoints.format.compactible_log import COMPACT, entry_names
from airflow_provider_ha.checkpoints.format.layout import progress
from airflow_provider_ha.checkpoints.format.releases import installed_version, release
from airflow_provider_ha.checkpoints.model import QueryCut, QuerySink, SinkKind
from airflow_provider_ha.checkpoints.savepoints.pool.judge import check
from airflow_provider_ha.checkpoints.savepoints.pool.leases import USE, PoolLock, give_way, lease
from airflow_provider_ha.checkpoints.savepoints.pool.pool import Place, Pool, member_of
from airflow_provider_ha.checkpoints.savepoints.pool.records import PooledFile, PooledSavepoint
from airflow_provider_ha.checkpoints.trees.at_once import each
from airflow_provider_ha.checkpoints.trees.object_tree import ObjectTree
from airflow_provider_ha.checkpoints.working.batch_log import readable
from airflow_provider_ha.checkpoints.working.pins import SINKS, refuse_reserved
from airflow_provider_ha.clock import Clock, SystemClock
from airflow_provider_ha.errors import (
    CheckpointCorruptError,
    CheckpointMissingError,
    ConfigurationError,
    ObjectExistsError,
    ObjectMissingError,
)
from airflow_provider_ha.names import check_name
from airflow_provider_ha.storage.reading import Listed
from airflow_provider_ha.storage.store import Checksum


ATTEMPTS = 5


class TornError(CheckpointCorruptError):
    """What was copied does not fit together: a file was replaced between two copies. A newer cut is taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PooledSource:
    """One query.

    :param query: Its name in the savepoint.
    :param place: Its checkpoint, in the bucket of the savepoint.
    :param batch: N; ``None`` for the newest committed one.
    :param sink: Output of its file sink, in the same bucket; ``None`` for any other sink.
    """

    query: str
    place: Place
    batch: int | None = None
    sink: Place | None = None


def take(
    pool: Pool,
    name: str,
    sources: Sequence[PooledSource],
    *,
    holder: str,
    label: str = "",
    spark_version: str | None = None,
    clock: Clock | None = None,
) -> PooledSavepoint:
    """Make the savepoint *name* of all *sources*; their queries may be running.

    :param sources: Downstream first.
    :param holder: Name of the process, for the operator.
    :param spark_version: The release that is to start from it; the installed one by default.
    :raises CheckpointMissingError: A query has no such batch, or purged what was copied again and again.
    :raises CheckpointCorruptError: A file of a checkpoint, or of a sink's log, is damaged.
    :raises ConfigurationError: The sources cannot be used.
    :raises ObjectExistsError: There is a savepoint of that name.
    :raises StorageUnavailableError: Something could not be read or written, or a sweep is under way.
    """
    release(spark_version)
    _check_sources(pool, sources)
    pool.check_free(name)
    attempts = Retrying(
        stop=stop_after_attempt(ATTEMPTS),
        retry=retry_if_exception_type((CheckpointMissingError, TornError)),
        reraise=True,
    )
    with lease(pool.store, pool.leases, USE, holder=holder, clock=clock) as (held, sweeping):
        give_way(sweeping)
        for source in sources:
            _batch(pool, source)
        made = _Attempt(pool, name, label, spark_version or installed_version(), clock or SystemClock(), held)
        return attempts(made.run, sources)


@dataclass(frozen=True, slots=True)
class _Attempt:
    pool: Pool
    name: str
    label: str
    spark_version: str
    clock: Clock
    held: PoolLock

    def run(self, sources: Sequence[PooledSource]) -> PooledSavepoint:
        created_at = self.clock.now()
        cut = {source.query: _batch(self.pool, source) for source in sources}
        found: dict[str, Listed] = {}
        sinks: dict[str, QuerySink] = {}
        for source in sources:
            found |= _files(self.pool, source, cut[source.query])
            sinks[source.query] = _sink(self.pool, source)
        files = self._copied(found)
        queries = {
            query: QueryCut(
                batch=batch,
                sink=sinks[query],
                files={n.removeprefix(f"{query}/"): f.size for n, f in files.items() if n.startswith(f"{query}/")},
            )
            for query, batch in cut.items()
        }
        savepoint = PooledSavepoint(
            savepoint_id=self.name,
            created_at=created_at,
            label=self.label,
            queries=queries,
            files=files,
            digested=all(file.digest for file in files.values()),
            spark_version=self.spark_version,
        )
        savepoint = self._verified(savepoint)
        self.held.check()
        self.pool.store.create(self.pool.manifest_key(self.name), savepoint.to_bytes())
        return savepoint

    def _copied(self, found: dict[str, Listed]) -> dict[str, PooledFile]:
        """Copy what the pool lacks; return what the pool has of every file."""
        present = self.pool.present()
        wanted = {member_of(item.etag, item.size): item for item in found.values()}

        def bring(member: str) -> Checksum | None:
            self.held.check()
            return self._bring(wanted[member], member, known=member in present)

        digests = dict(zip(wanted, each(bring, wanted), strict=True))
        present = self.pool.present()
        return {name: _pooled(name, item, present, digests) for name, item in found.items()}

    def _bring(self, item: Listed, member: str, *, known: bool) -> Checksum | None:
        key = self.pool.members + member
        if not known:
            try:
                return self.pool.store.copy(item.key, key, if_absent=True, if_match=item.etag).checksum
            except ObjectExistsError:
                pass  # another savepoint brought it meanwhile
            except ObjectMissingError as error:
                raise CheckpointMissingError(
                    f"{item.key} was purged or replaced while it was copied", next_step="Take a newer batch"
                ) from error
        info = self.pool.store.info(key)
        return None if info is None else info.checksum

    def _verified(self, savepoint: PooledSavepoint) -> PooledSavepoint:
        try:
            check(self.pool, savepoint)
        except CheckpointCorruptError as error:
            raise TornError(error.path, error.reason, next_step="Look with `spark-ha checkpoint verify`") from error
        present = self.pool.present()
        # What the manifest says of the batch is what the copied files say.
        cuts = {
            query: part.model_copy(
                update={"entries": tuple(readable(self.pool.tree_of(savepoint, query, present), after=part.batch - 1))}
            )
            for query, part in savepoint.queries.items()
        }
        return savepoint.model_copy(update={"queries": cuts})


def _pooled(name: str, item: Listed, present: dict[str, Listed], digests: dict[str, Checksum | None]) -> PooledFile:
    member = member_of(item.etag, item.size)
    copied, checksum = present.get(member), digests[member]
    if copied is None or copied.size != item.size:
        raise TornError(
            name, "its copy is not in the pool as it was made", next_step="Find out what removes objects there"
        )
    return PooledFile(
        size=item.size,
        member=member,
        etag=copied.etag,
        algorithm=checksum.algorithm if checksum else "",
        digest=checksum.value if checksum else "",
    )


def _files(pool: Pool, source: PooledSource, batch: int) -> dict[str, Listed]:
    """Return every file of one query's part of the cut -> the object that it is."""
    directory = pool.tree_at(source.place)
    # Hidden checksums are Hadoop's for a disk: on S3 no reader compares them, and S3A writes none.
    names = [name for name in closure(directory, batch, with_planned=False).files if "/." not in f"/{name}"]
    found = {f"{source.query}/{name}": directory.listed(name) for name in names}
    if source.sink is not None and batch >= 0:
        log = _sink_log(pool, source.sink)
        found |= {f"{SINKS}/{source.query}/{LOG}/{entry}": log.listed(entry) for entry in _needed(log, batch)}
    return found


def _needed(log: ObjectTree, batch: int) -> list[str]:
    """Return the entries of a sink's log that are needed to know every file up to *batch*."""
    entries = entry_names(log.names())
    first = max((entry for entry, name in entries.items() if name.endswith(COMPACT) and entry <= batch), default=0)
    return [entries.get(entry, str(entry)) for entry in range(first, batch + 1)]


def _sink_log(pool: Pool, sink: Place) -> ObjectTree:
    return pool.tree_at(Place(sink.bucket, f"{sink.prefix}{LOG}/"))


def _sink(pool: Pool, source: PooledSource) -> QuerySink:
    if source.sink is None:
        return QuerySink(kind=SinkKind.OTHER)
    entries = entry_names(_sink_log(pool, source.sink).names())
    return QuerySink(kind=SinkKind.FILE, path=str(source.sink), max_batch=max(entries, default=-1))


def _batch(pool: Pool, source: PooledSource) -> int:
    if source.batch is not None:
        return source.batch
    committed = progress(pool.tree_at(source.place)).committed
    if committed < 0:
        raise CheckpointMissingError(
            f"query {source.query!r} has not committed a batch yet in {source.place}",
            next_step="Check the prefix, or wait for its first batch",
        )
    return committed


def _check_sources(pool: Pool, sources: Sequence[PooledSource]) -> None:
    names = [check_name(source.query, "query name") for source in sources]
    if not sources or len(set(names)) < len(names):
        raise ConfigurationError(
            f"a savepoint needs one name per query: {len(names)} queries, {len(set(names))} names",
            next_step="Name at least one query, and each once",
        )
    for source in sources:
        refuse_reserved(source.query)
        for place in (source.place, source.sink):
            if place is not None and place.bucket != pool.place.bucket:
                raise ConfigurationError(
                    f"{place} of query {source.query!r} lies in another bucket than {pool.place}",
                    next_step="Name a savepoint in the same bucket: its server copies the files",
                )
        if pool.place.prefix.startswith(source.place.prefix) and source.place.prefix:
            raise ConfigurationError(
                f"{pool.place} lies in the checkpoint that is to be saved", next_step="Save it to another prefix"
            )
