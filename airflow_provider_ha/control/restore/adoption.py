"""Planning a start from checkpoint directories that Spark wrote elsewhere, without any of this package around it.

The plan is that of a restore into the same outputs: the old query has ended, this job goes on in its place. So the
batch that was in flight is executed again with its own boundaries, and what a named file sink has of it is left alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from airflow_provider_ha.checkpoints.format.releases import installed_version
from airflow_provider_ha.checkpoints.model import RestorePlan
from airflow_provider_ha.checkpoints.restore.adopted_cut import DirectoryCut, look, sink_of
from airflow_provider_ha.checkpoints.restore.gather import RestoreCase, gather_facts
from airflow_provider_ha.checkpoints.restore.plan import plan_restore
from airflow_provider_ha.checkpoints.restore.select import Chosen
from airflow_provider_ha.checkpoints.trees.local_tree import LocalTree
from airflow_provider_ha.checkpoints.verify.restorable import verifier
from airflow_provider_ha.checkpoints.working.pins import refuse_reserved
from airflow_provider_ha.control.job.context import JobContext
from airflow_provider_ha.control.job.requests import RestoreRequest
from airflow_provider_ha.control.restore.choices import restore_choices
from airflow_provider_ha.control.restore.external_state import external_queries
from airflow_provider_ha.errors import ConfigurationError, StorageUnavailableError
from airflow_provider_ha.jobs.model import StartKind
from airflow_provider_ha.names import check_name


def plan_adoption(job: JobContext, request: RestoreRequest) -> tuple[Chosen, RestorePlan]:
    """Verify every directory, and plan to go on from them. Changes nothing.

    :raises CheckpointCorruptError: One of them cannot be restored.
    :raises ConfigurationError: The names or the paths cannot be used.
    :raises JobStateError: A query goes on in its directory at this moment.
    :raises StorageUnavailableError: One of them could not be read, or is no directory of this host.
    """
    _check_names(request)
    directories = {query: _directory(job, text) for query, text in request.adopt.items()}
    verify = verifier("full", None)
    found = {
        query: look(query, directory, sink_of(request.sinks.get(query)), verify)
        for query, directory in directories.items()
    }
    _check_identities(found)  # guard: one-checkpoint-for-two-queries
    chosen = _chosen(job, found)
    choices = restore_choices(request, chosen, job_id=job.job_id, source_job=job.job_id)
    facts = gather_facts(
        RestoreCase(
            chosen=chosen,
            at=job.clock.now(),
            directories={query: LocalTree(Path(item.adopted.path)) for query, item in found.items()},
            candidates=tuple(item.candidate for item in found.values()),
            adopted={query: item.adopted for query, item in found.items()},
            has_state=job.has_state,
            external=external_queries(job, request, chosen),
        )
    )
    return chosen, plan_restore(facts, choices)


def _check_names(request: RestoreRequest) -> None:
    for query in request.adopt:
        check_name(query, "query name")
        refuse_reserved(query)
    unknown = sorted(set(request.sinks) - set(request.adopt))
    if unknown:
        raise ConfigurationError(
            f"the sinks of {unknown} are named, but not their checkpoints",
            next_step=f"Name the sinks of {sorted(request.adopt)} only",
        )


def _directory(job: JobContext, text: str) -> Path:
    parts = urlsplit(text)
    if parts.scheme not in ("", "file"):
        raise ConfigurationError(
            f"checkpoint {text!r} is not on a file system of this host",
            next_step="Copy it to one that the hosts of the drivers share, and adopt it from there",
        )
    path = Path(unquote(parts.path)) if parts.scheme else Path(text)
    if not path.is_absolute() or ".." in path.parts:
        raise ConfigurationError(
            f"checkpoint directory {text!r} is no absolute path", next_step="Write it from the root, without '..'"
        )
    if not LocalTree(path).is_directory():
        raise StorageUnavailableError(
            f"checkpoint {path} is not a directory of this host",
            next_step="Check its path, and that its file system is mounted; the driver has to see it as well",
        )
    # Resolved: the driver may run in another directory, and a claimed one is removed under this name.
    place = path.resolve()
    if job.area.touches(str(place)):  # guard: live-directories-are-adopted
        raise ConfigurationError(
            f"{path} belongs to this cluster, and is not adopted",
            next_step="Restore from its job: by checkpoint or savepoint, with that job as the source",
        )
    return place


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
