"""What a move is refused for, asked before anything is changed."""

from __future__ import annotations

from pathlib import Path

from airflow_provider_ha.checkpoints.connectors.places import Reach, is_local, is_s3, local_path
from airflow_provider_ha.checkpoints.connectors.sinks import sink_connector
from airflow_provider_ha.checkpoints.model import RestorePlan
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.control.job.context import JobContext
from airflow_provider_ha.control.move.outcome import MoveRequest
from airflow_provider_ha.control.submission.prepare import check_master, check_spark
from airflow_provider_ha.control.submission.unknown_job import refuse_unknown
from airflow_provider_ha.control.submission.work_root import check_work_root
from airflow_provider_ha.engines.registry import Engines
from airflow_provider_ha.errors import ConfigurationError, JobStateError
from airflow_provider_ha.jobs.model import JobGraph
from airflow_provider_ha.jobs.moves import cluster_name, read_arrival, read_moved
from airflow_provider_ha.jobs.options.conf_keys import check_conf
from airflow_provider_ha.jobs.options.lineage_conf import merged


def check_clusters(source: JobContext, target: JobContext) -> None:
    """Refuse a move that leads to where the job is.

    A cluster has one work root. So another store is another cluster, with a separate id.

    :raises ConfigurationError: It is the same cluster, or both work in one directory.
    """
    if cluster_name(source.config) == cluster_name(target.config):
        raise ConfigurationError(
            f"the target is the cluster {cluster_name(target.config)} that job {source.job_id!r} is in",
            next_step="Name a connection with another cluster_id, and with the work_root that the job is to have",
        )
    for name, ours, theirs in (
        ("work_root", source.config.work_uri, target.config.work_uri),
        ("storage_root", _storage(source), _storage(target)),
    ):
        if ours == theirs:
            raise ConfigurationError(
                f"both clusters have their {name} in {ours}", next_step="Give the target another one, or a cluster_id"
            )


def check_store(target: JobContext) -> None:
    """See that the target can be written and keeps two drivers apart.

    :raises ConfigurationError: It removes files by a rule.
    :raises StorageUnavailableError: It cannot be written, or lets two create one file, with the reason.
    """
    target.store.check_writable()
    target.area.capabilities()


def check_free(source: JobContext, target: JobContext) -> None:
    """See that the target has no job of that id but one that has left.

    :raises JobStateError: It has, or another move brings one.
    """
    refuse_unknown(target)  # before anything is stopped
    there = target.runs.latest()
    left = read_moved(target.coordinator, target.paths)
    if there is not None and there.result is None:
        raise _taken(target, f"has a live run of it, number {there.run.number}")
    if left is not None and left[0].run is None:
        raise _taken(target, f"is moving it to {left[0].cluster}")
    if there is not None and left is None:
        raise _taken(target, f"has {there.run.number} runs of it that were never moved away")
    coming = read_arrival(target.coordinator, target.paths)
    if coming is not None and coming[0].cluster != cluster_name(source.config):
        raise _taken(target, f"receives it from {coming[0].cluster}")


def check_graph(target: JobContext, graph: JobGraph) -> None:
    """See that the target can run the job.

    :raises ConfigurationError: It cannot.
    :raises ApplicationRefusedError: Its conf sets what belongs to the work root of the target.
    """
    engine = target.engines.get(graph.target.engine)
    check_spark(target.config, engine, graph.target)
    engine.check(graph.target)
    check_conf(graph.conf)
    check_work_root(target.config, engine, graph.target, graph.conf)
    check_master(graph.target.master, allowed=graph.options.allow_remote_executors)


def check_outputs(target: JobContext, plan: RestorePlan) -> None:
    """See that every file sink, which stays where it is, is the same one from the target.

    :raises ConfigurationError: One cannot be used there, or has other batches when it is read from there.
    :raises StorageUnavailableError: One could not be read.
    """
    reach = Reach.of(target.config)
    for query, part in plan.queries.items():
        connector, path = sink_connector(part.sink, reach), part.sink.path
        if connector is None or path is None:
            continue
        if is_local(path) and part.sink.max_batch >= 0 and not Path(local_path(path)).is_dir():
            raise ConfigurationError(
                f"query {query!r} writes to {path}, which is not a directory of this host",
                next_step="Mount it on the hosts that run drivers of the target, and on this one",
            )
        if is_s3(path) and not target.config.work_uri.startswith("s3:"):
            raise ConfigurationError(
                f"query {query!r} writes files to {path}, and such a job needs a work root on S3; the target works in "
                f"{target.config.work_uri}",
                next_step="Move it to a cluster that works on S3",
            )
        reached = connector.reached()
        if reached != part.sink.max_batch:
            raise ConfigurationError(
                f"the output {path} of query {query!r} has batches up to {reached} as the target reaches it, and up to "
                f"{part.sink.max_batch} as job {target.job_id!r} does now: it is another one",
                next_step="Correct the target's connection (s3_endpoint_url, hdfs_namenodes)",
            )


def moved_graph(graph: JobGraph, request: MoveRequest, to: HaConfig, engines: Engines) -> JobGraph:
    """Return the graph with what the request changes about it, and with the options of the target's machines. Pure."""
    conf = {**graph.conf, **request.conf}
    changed: dict[str, object] = {
        "conf": {key: value for key, value in conf.items() if value},
        "lineage": merged(graph.lineage, request.lineage),
    }
    if request.packages is not None:
        changed["packages"] = request.packages
    options = engines.cluster_options(to, graph.target.engine)
    target = graph.target.model_copy(update={"cluster_options": options})
    changed["target"] = target if request.master is None else target.model_copy(update={"master": request.master})
    return graph.model_copy(update=changed)


def _storage(job: JobContext) -> str:
    return f"{job.config.storage_root}/{job.config.cluster_id}"


def _taken(target: JobContext, why: str) -> JobStateError:
    return JobStateError(
        f"job {target.job_id!r} cannot be moved to cluster {cluster_name(target.config)}, which {why}",
        next_step=f"Look at it there: `spark-ha job show {target.job_id}`",
    )
