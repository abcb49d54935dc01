"""Choices of a restore request: sinks, external systems, ownership, and adopted directories.

Invariant: a restore claims only the job's own savepoint, or a directory outside the cluster. Another job keeps its
checkpoints and savepoints, and only its leader removes them. A savepoint is claimed once; a repeated request may claim
the same savepoint again.

The plan of an adopted directory is that of a restore into the same outputs: the old query has ended, and this job
continues in its place. So the batch in flight is executed again with its own boundaries, and its output in a named file
sink is left alone.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path

from airflow_provider_ha.checkpoints.areas.pins import refuse_reserved
from airflow_provider_ha.checkpoints.model import SavepointPointer
from airflow_provider_ha.checkpoints.ownership import ClaimMode
from airflow_provider_ha.checkpoints.plan_model import RestorePlan
from airflow_provider_ha.checkpoints.restore.directory_plan import DirectoryCut, look
from airflow_provider_ha.checkpoints.restore.facts import ExternalQueries, RestoreCase, gather_facts
from airflow_provider_ha.checkpoints.restore.plan import RestoreChoices, plan_restore
from airflow_provider_ha.checkpoints.restore.select import RestoreSource
from airflow_provider_ha.checkpoints.sinks.sink_registry import sink_named, type_of
from airflow_provider_ha.checkpoints.sources.input_files import look_for
from airflow_provider_ha.checkpoints.sources.kafka_offsets import Partition, PartitionOffsets, held_offsets
from airflow_provider_ha.checkpoints.spark.places import (
    StorageAccess,
    is_hdfs,
    is_local,
    is_s3,
    local_path,
    output_place,
)
from airflow_provider_ha.checkpoints.spark.releases import installed_version
from airflow_provider_ha.checkpoints.spark.tree import Tree
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_store import SavepointStore
from airflow_provider_ha.checkpoints.verify.restorable import verifier
from airflow_provider_ha.errors import ConfigurationError, HaError, RestoreRefusedError, StorageUnavailableError
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.job_graph import Blob
from airflow_provider_ha.jobs.model import StartKind
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.options.job_spec import RestoreRequest
from airflow_provider_ha.jobs.submit.run_submission import made_by
from airflow_provider_ha.names import check_query
from airflow_provider_ha.query_names import own_name, query_directory
from airflow_provider_ha.uris import split


def check_claim(job: JobContext, request: RestoreRequest, source: JobContext, chosen: RestoreSource) -> bool:
    """Return whether *chosen* is a savepoint that an earlier restore has claimed.

    :raises RestoreRefusedError: The request claims it, but cannot.
    """
    claims = request.claim_mode is ClaimMode.CLAIM
    if claims and source.job_id != job.job_id:  # guard: another-jobs-savepoint-is-claimed
        raise RestoreRefusedError(
            f"{chosen.name} belongs to job {source.job_id!r}, so job {job.job_id!r} cannot claim it",
            next_step="Restore it with claim mode NO_CLAIM; its own job, or its user, removes it",
        )
    if chosen.source == StartKind.CHECKPOINT.value:
        return False
    store = SavepointStore(source.coordinator, source.paths, source.keys, source.area, clock=source.clock)
    pointer = store.pointer(chosen.source_id)
    if pointer.claimed_by is None:
        return False
    if claims:
        _refuse_second_claim(job, request, pointer, pointer.claimed_by)
    return True


def _refuse_second_claim(job: JobContext, request: RestoreRequest, pointer: SavepointPointer, run: int) -> None:
    if run in job.runs.numbers() and made_by(job.runs.get(run).run, request.request_id):
        return
    raise RestoreRefusedError(
        f"savepoint {pointer.savepoint_id!r} of job {job.job_id!r} was claimed by run {run}, and is claimed once",
        next_step="Restore it with claim mode NO_CLAIM; the job owns it already, and removes it when newer checkpoints "
        "replace it",
    )


def restore_choices(
    request: RestoreRequest, chosen: RestoreSource, *, job_id: str, source_job: str, options: HaOptions | None = None
) -> RestoreChoices:
    """Return the choices of *request*, with new ids for the queries that get a fresh id.

    :param options: Options of the graph that wrote the cut; ``None`` if unknown.
    :raises ConfigurationError: The request names a query that the cut lacks, or that cannot get a fresh id.
    """
    _check_names(request, chosen)
    return RestoreChoices(
        job_id=job_id,
        source_job=source_job,
        same_output=source_job == job_id,
        accept_unverified=request.accept_unverified,
        reset_query_ids={name: str(uuid.uuid4()) for name in request.reset_query_ids},
        claim_mode=request.claim_mode,
        repeatable=_repeatable(request, options),
    )


def options_of(source: JobContext, chosen: RestoreSource) -> HaOptions | None:
    """Return the options of the graph that wrote a cut; ``None`` if the graph cannot be read.

    A run that starts from this graph raises the error; a plan can still be shown.
    """
    try:
        return source.graphs.read_graph(Blob(sha256=chosen.graph, size=0)).options
    except (HaError, ValueError):
        return None


def _repeatable(request: RestoreRequest, options: HaOptions | None) -> Collection[str]:
    said = request.options or options
    names = said.repeatable if said is not None and request.repeatable is None else request.repeatable
    return frozenset(map(query_directory, names or ()))


def _check_names(request: RestoreRequest, chosen: RestoreSource) -> None:
    for option, named in (
        ("kafka_bootstrap", request.kafka_bootstrap),
        ("accept_unverified", request.accept_unverified),
        ("reset_query_ids", request.reset_query_ids),
    ):
        if strange := sorted(set(named) - set(chosen.queries)):
            raise ConfigurationError(
                f"{option} names {strange}, but the queries of the cut are {sorted(chosen.queries)}",
                next_step="Correct the name",
            )
    for name in sorted(request.reset_query_ids):
        sink = chosen.queries[name].sink
        if type_of(sink).table is None:
            raise ConfigurationError(
                f"query {name!r} writes to a {sink.format or sink.kind.value} sink, which does not remember query "
                "ids: a fresh one would change nothing",
                next_step="Leave it out of reset_query_ids",
            )


def external_queries(
    source: JobContext, request: RestoreRequest, chosen: RestoreSource, *, replays: bool = True
) -> ExternalQueries:
    """Return the functions that query external systems about a cut.

    :param source: The job that owns the cut.
    :param replays: Whether batches after the cut are executed again, so that their input files are checked.
    """
    asked = _Brokers(source, request, chosen)
    return ExternalQueries(
        ask_kafka=asked.held,
        ask_inputs=partial(look_for, reach=StorageAccess.of(source.config)) if replays else None,
        given=lambda query: source.area.tree(source.keys.given(query)),
    )


class _Brokers:
    """Requests to Kafka, with the options of the request, or else of the graph that wrote the cut."""

    def __init__(self, source: JobContext, request: RestoreRequest, chosen: RestoreSource) -> None:
        self._source = source
        self._request = request
        self._chosen = chosen

    def held(self, query: str, topics: frozenset[str]) -> Mapping[Partition, PartitionOffsets]:
        """Return the offsets of *topics* on the brokers of *query*.

        :raises ConfigurationError: The brokers are not configured, or the Kafka client is missing.
        :raises RestoreUnknownError: The brokers do not answer.
        """
        servers = self._request.kafka_bootstrap.get(query) or self._said(
            lambda each: each.kafka_bootstrap.get(own_name(query))
        )
        cut = self._chosen.queries.get(query)
        servers = servers or (cut.sources.brokers if cut is not None else "")
        properties = self._request.kafka_properties or self._said(lambda each: each.kafka_properties)
        if not servers:
            raise ConfigurationError(
                f"the brokers of {', '.join(sorted(topics))} for query {query!r} are not configured, and the "
                "checkpoint does not name them",
                next_step=f"Name them (--kafka-bootstrap {query}=host:port)",
            )
        return held_offsets(servers, topics, properties=Path(properties) if properties else None)

    def _said(self, option: Callable[[HaOptions], str | None]) -> str | None:
        """Return an option of the request, or else of the graph."""
        own = option(self._request.options) if self._request.options is not None else None
        if own is not None:
            return own
        options = options_of(self._source, self._chosen)
        return option(options) if options is not None else None


def plan_adoption(job: JobContext, request: RestoreRequest) -> tuple[RestoreSource, RestorePlan]:
    """Verify all directories, and plan to continue from them. Changes nothing.

    :raises CheckpointCorruptError: A directory cannot be restored.
    :raises ConfigurationError: A name or path is invalid.
    :raises JobStateError: A query is running in its directory.
    :raises StorageUnavailableError: A directory is missing or could not be read.
    """
    _check_directory_names(request)
    reach, verify = StorageAccess.of(job.config), verifier("full", None)
    places = {query: _place(job, request, text) for query, text in request.adopt.items()}
    trees = {query: _there(reach.tree(place), place) for query, place in places.items()}
    found = {
        query: look(query, trees[query], place, sink_named(request.sinks.get(query), reach), verify)
        for query, place in places.items()
    }
    _check_identities(found)
    chosen = _chosen(job, found)
    options = options_of(job, chosen)
    choices = restore_choices(request, chosen, job_id=job.job_id, source_job=job.job_id, options=options)
    facts = gather_facts(
        RestoreCase(
            chosen=chosen,
            at=job.clock.now(),
            directories={query: tree.fresh() for query, tree in trees.items()},
            candidates=tuple(item.candidate for item in found.values()),
            adopted={query: item.adopted for query, item in found.items()},
            has_state=job.has_state,
            external=external_queries(job, request, chosen),
            reach=reach,
        )
    )
    return chosen, plan_restore(facts, choices)


def _check_directory_names(request: RestoreRequest) -> None:
    for query in request.adopt:
        check_query(query)
        refuse_reserved(query)
    unknown = sorted(set(request.sinks) - set(request.adopt))
    if unknown:
        raise ConfigurationError(
            f"the sinks of {unknown} are named, but not their checkpoints",
            next_step=f"Name the sinks of {sorted(request.adopt)} only",
        )


def _place(job: JobContext, request: RestoreRequest, text: str) -> str:
    """Return the place of a directory: a resolved path, or a URI in normal form.

    :raises ConfigurationError: The directory cannot be adopted.
    """
    place = str(_path(text)) if is_local(text) else _stored(request, text)
    if job.area.touches(place):
        raise ConfigurationError(
            f"{text} belongs to this cluster, and is not adopted",
            next_step="Restore from its job: by checkpoint or savepoint, with that job as the source",
        )
    return place


def _path(text: str) -> Path:
    path = local_path(text)
    if not path.is_absolute() or ".." in path.parts:
        raise ConfigurationError(
            f"checkpoint directory {text!r} is no absolute path", next_step="Write it from the root, without '..'"
        )
    # Resolve it: the driver may run in another directory, and a claimed directory is removed under this name.
    return path.resolve()


def _stored(request: RestoreRequest, text: str) -> str:
    if not (is_s3(text) or is_hdfs(text)):
        raise ConfigurationError(
            f"checkpoint {text!r} is on a file system ({split(text).scheme}:) that cannot be read from here",
            next_step="Copy it to a mounted path, to s3://bucket/prefix or hdfs://namenode:8020/path, and adopt it "
            "from there",
        )
    if request.claim_mode is ClaimMode.CLAIM:
        raise ConfigurationError(
            f"checkpoint {text!r} cannot be claimed: only directories of a host are removed for their owner",
            next_step="Adopt it with claim mode NO_CLAIM, and remove it when the job has its own checkpoints",
        )
    return output_place(text)


def _there(directory: Tree, place: str) -> Tree:
    if not directory.is_directory():
        problem, step = directory.absence()
        raise StorageUnavailableError(
            f"checkpoint {place} {problem}", next_step=f"{step}; the driver also needs access"
        )
    return directory


def _check_identities(found: Mapping[str, DirectoryCut]) -> None:
    seen: dict[str, str] = {}
    for query, item in found.items():
        other = seen.setdefault(item.adopted.query_id, query)
        if other != query:
            raise ConfigurationError(
                f"queries {other!r} and {query!r} have the same query id: their checkpoints are the same, or copies",
                next_step="Name a separate checkpoint for each query; Spark refuses two queries with the same id",
            )


def _chosen(job: JobContext, found: Mapping[str, DirectoryCut]) -> RestoreSource:
    newest = job.runs.latest()
    return RestoreSource(
        source=StartKind.PATH.value,
        source_id=", ".join(f"{query}={item.adopted.path}" for query, item in found.items()),
        directory="",
        queries={query: item.cut for query, item in found.items()},
        run=0,
        epoch=0,
        graph=newest.run.graph.sha256 if newest is not None else "",
        spark_version=installed_version(),
        created_at=min(item.created_at for item in found.values()),
    )
