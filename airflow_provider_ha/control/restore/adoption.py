"""Planning a start from checkpoint directories that Spark wrote elsewhere, without any of this package around it.

The plan is that of a restore into the same outputs: the old query has ended, this job goes on in its place. So the
batch that was in flight is executed again with its own boundaries, and what a named file sink has of it is left alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from airflow_provider_ha.checkpoints.connectors.places import Reach, is_hdfs, is_local, is_s3, local_path, output_place
from airflow_provider_ha.checkpoints.connectors.sinks import sink_named
from airflow_provider_ha.checkpoints.format.releases import installed_version
from airflow_provider_ha.checkpoints.model import RestorePlan
from airflow_provider_ha.checkpoints.restore.adopted_cut import DirectoryCut, look
from airflow_provider_ha.checkpoints.restore.gather import RestoreCase, gather_facts
from airflow_provider_ha.checkpoints.restore.plan import plan_restore
from airflow_provider_ha.checkpoints.restore.select import Chosen
from airflow_provider_ha.checkpoints.trees.tree import Tree
from airflow_provider_ha.checkpoints.verify.restorable import verifier
from airflow_provider_ha.checkpoints.working.pins import refuse_reserved
from airflow_provider_ha.control.job.context import JobContext
from airflow_provider_ha.control.job.spec import RestoreRequest
from airflow_provider_ha.control.restore.choices import options_of, restore_choices
from airflow_provider_ha.control.restore.external_state import external_queries
from airflow_provider_ha.errors import ConfigurationError, StorageUnavailableError
from airflow_provider_ha.jobs.model import StartKind
from airflow_provider_ha.names import check_query
from airflow_provider_ha.pointers.ownership import ClaimMode
from airflow_provider_ha.uris import split


def plan_adoption(job: JobContext, request: RestoreRequest) -> tuple[Chosen, RestorePlan]:
    """Verify every directory, and plan to go on from them. Changes nothing.

    :raises CheckpointCorruptError: One of them cannot be restored.
    :raises ConfigurationError: The names or the paths cannot be used.
    :raises JobStateError: A query goes on in its directory at this moment.
    :raises StorageUnavailableError: One of them could not be read, or is not there.
    """
    _check_names(request)
    reach, verify = Reach.of(job.config), verifier("full", None)
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


def _check_names(request: RestoreRequest) -> None:
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
    """Return where a directory lies: a resolved path, or a URI in its normal form.

    :raises ConfigurationError: It cannot be adopted.
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
    # Resolved: the driver may run in another directory, and a claimed one is removed under this name.
    return path.resolve()


def _stored(request: RestoreRequest, text: str) -> str:
    if not (is_s3(text) or is_hdfs(text)):
        raise ConfigurationError(
            f"checkpoint {text!r} lies on a file system ({split(text).scheme}:) that cannot be read from here",
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
            f"checkpoint {place} {problem}", next_step=f"{step}; the driver has to reach it as well"
        )
    return directory


def _check_identities(found: Mapping[str, DirectoryCut]) -> None:
    seen: dict[str, str] = {}
    for query, item in found.items():
        other = seen.setdefault(item.adopted.query_id, query)
        if other != query:
            raise ConfigurationError(
                f"queries {other!r} and {query!r} have one query id: it is the same checkpoint, or a copy of it",
                next_step="Name the checkpoint of each query once; Spark runs no two queries of one id",
            )


def _chosen(job: JobContext, found: Mapping[str, DirectoryCut]) -> Chosen:
    newest = job.runs.latest()
    return Chosen(
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
