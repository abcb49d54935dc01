"""Preparation of a run: validation of its graph, upload of the application, and the job graph.

On S3, a component in Spark's JVM keeps two drivers from writing the same checkpoint. It needs a recent release of
Spark, and owns a part of the conf.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from airflow_provider_ha.checkpoints.areas.work_area import costs
from airflow_provider_ha.checkpoints.plan_model import Verdict
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.host.engines.engine import Engine
from airflow_provider_ha.host.java import find_java
from airflow_provider_ha.jobs.application.application_files import (
    ApplicationFiles,
    check_queries,
    collect_application,
)
from airflow_provider_ha.jobs.application.artifacts import ApplicationArtifacts, digest_application, upload_application
from airflow_provider_ha.jobs.drivers.spark_release import (
    REMOTE_NEXT_STEP,
    check_possible,
    find_spark_home,
    is_local,
    remote_reason,
)
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.job_graph import Artifact, Blob, JobGraph, Target
from airflow_provider_ha.jobs.options.conf import (
    check_conf,
    component_jar,
    engine_options,
    named_spark_home,
    needs_component,
    refuse_owned,
)
from airflow_provider_ha.jobs.options.declaration import all_of
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.options.job_spec import JobSpec


log = logging.getLogger(__name__)

FILES = ("application", "py_files", "files", "jars", "archives")  # fields of a spec with files to upload
_NOT_UPLOADED = Artifact(name="", blob=Blob(sha256="0" * 64, size=0))
OLDEST_SPARK = (4, 1, 0)  # with Hadoop 3.4.2, which supports conditional creation of objects


def check_work_root(config: HaConfig, engine: Engine, target: Target, conf: Mapping[str, str]) -> None:
    """Refuse a job that cannot work on this work root.

    :param conf: Spark's conf as given by the user.
    :raises ApplicationRefusedError: The conf sets a key that the component owns.
    :raises ConfigurationError: The driver's Spark is too old, or this host would run the driver and has no component.
    """
    if not needs_component(config):
        return
    refuse_owned(conf)
    if engine.facts.runs_here:
        component_jar()
    known = next((found for found in engine.probe(target) if found.spark is not None), None)
    if known is not None and known.spark is not None and known.spark < OLDEST_SPARK:
        raise ConfigurationError(
            f"the Spark {known.place} is of release {'.'.join(map(str, known.spark))}, and checkpoints on "
            f"{config.work_root} need 4.1 or newer: earlier ones cannot create an object on condition",
            next_step="Install Spark 4.1 or newer on the hosts that run drivers, or use a work root on a mounted file "
            "system",
        )


def check_storage(job: JobContext) -> None:
    """Check that runs can be created on this storage, before any node is created; log known costs.

    :raises ConfigurationError: A lifecycle rule of the storage or the work root removes files.
    :raises StorageUnavailableError: Either is not writable, or does not refuse to create an existing object.
    """
    job.store.check_writable()
    for cost in costs(job.area):
        log.warning("job %s: %s", job.job_id, cost)


def check_master(master: str, *, allowed: bool) -> None:
    """Refuse a master whose executors cannot be proven dead.

    :param allowed: Whether an option allows remote executors.
    :raises ConfigurationError: The master is remote and not allowed, or unknown to Spark.
    """
    check_possible(master)
    if not allowed and not is_local(master):
        raise ConfigurationError(remote_reason(master), next_step=REMOTE_NEXT_STEP)


def check_local_recovery(config: HaConfig, options: HaOptions) -> None:
    """Refuse copies of a state that is on a mounted file system.

    :raises ConfigurationError: The work root needs no component, which makes the copies.
    """
    if options.local_recovery and not needs_component(config):
        raise ConfigurationError(
            f"local_recovery needs a work root on S3 or HDFS, and {config.work_uri} is a directory of the host",
            next_step="Use local_recovery=False",
        )


def check_spark(config: HaConfig, engine: Engine, target: Target) -> Path | None:
    """Return this host's Spark for the drivers; ``None`` for a cluster, whose workers have their own.

    :raises ConfigurationError: Spark is missing, unsupported, or mixed from two releases, which makes drivers fail in
        odd ways.
    """
    if not engine.facts.runs_here:
        return None
    # A configured Spark replaces the installed one, and brings its own Python files.
    return find_spark_home(named_spark_home(engine_options(config, target)))


def check_java(engine: Engine, env: Mapping[str, str], spark_home: Path | None) -> None:
    """Refuse this host if a driver here would find no Java, or one too old.

    Only for drivers on this host without a ``spark-env.sh``, which may set another Java.

    :raises ConfigurationError: Java is missing or too old.
    """
    environment = {**os.environ, **env}
    conf = Path(environment.get("SPARK_CONF_DIR") or (spark_home or Path()) / "conf")
    if engine.facts.runs_here and not (conf / "spark-env.sh").exists():
        find_java(environment)


def resolve(
    job: JobContext, graph: JobGraph, files: Mapping[str, Any], *also: Callable[[], object]
) -> ApplicationFiles | None:
    """Validate the graph of a new run, for every action that makes one. Writes nothing.

    :param graph: The graph, with the files that are in storage already.
    :param files: Files to upload, ``application`` among them, by their names in a spec; empty for none.
    :param also: Further checks of the request.
    :returns: The files to upload; ``None`` for none.
    :raises ConfigurationError: Conf sets a key that has a parameter; the master is remote or impossible; the engine
        cannot run the target; Spark or Java is missing, mixed, or too old for the work root; a file is missing; the
        script has no recoverable query. A single error has all mistakes.
    :raises ApplicationRefusedError: Conf sets a key that the work root needs.
    """
    config, target, engine = job.config, graph.target, job.engines.get(graph.target.engine)
    found: list[ApplicationFiles] = []
    checks: tuple[Callable[[], object], ...] = (
        *also,
        partial(check_conf, graph.conf),
        partial(check_master, target.master, allowed=graph.options.allow_remote_executors),
        partial(engine.check, target),
        lambda: check_java(engine, graph.env, check_spark(config, engine, target)),
        partial(check_work_root, config, engine, target, graph.conf),
        partial(check_local_recovery, config, graph.options),
        lambda: found.append(_collect(files)) if files else None,
    )
    all_of(checks)
    return found[0] if found else None


def _collect(files: Mapping[str, Any]) -> ApplicationFiles:
    """Find the files of an application; warn of queries that its driver will refuse."""
    application = Path(files["application"])
    for line in check_queries(application) if application.is_file() else ():
        log.warning(
            "%s, line %d: a streaming query has no name, and its sink gives it none, so the driver will refuse it. "
            'Add .queryName("...") to its writeStream.',
            application,
            line,
        )
    return collect_application(**files)


def upload(job: JobContext, request: JobSpec) -> JobGraph:
    """Validate a spec, upload its files to storage, and return its graph.

    :raises HaError: As :func:`resolve`, before the upload, and as :func:`upload_files`.
    """
    graph, conflicts = _graph(job, request), partial(request.resources.beside, request.conf)
    return upload_files(job, graph, resolve(job, graph, _files(request), conflicts))


def upload_files(
    job: JobContext, graph: JobGraph, found: ApplicationFiles | None, names: Iterable[str] = FILES
) -> JobGraph:
    """Check the storage, upload the files of an application, and return the graph with them.

    :param names: Kinds of files that the upload replaces in the graph.
    :raises ConfigurationError, StorageUnavailableError: As :func:`check_storage`.
    """
    check_storage(job)
    return graph if found is None else _with_files(graph, upload_application(job.store, found), names)


def _with_files(graph: JobGraph, artifacts: ApplicationArtifacts, names: Iterable[str] = FILES) -> JobGraph:
    return graph.model_copy(update={name: getattr(artifacts, name) for name in (*names, "modules", "beside")})


def describe(job: JobContext, request: JobSpec) -> JobGraph:
    """Return the graph that :func:`upload` would return. Writes nothing.

    :raises ConfigurationError: A file is missing.
    """
    return _with_files(_graph(job, request), digest_application(collect_application(**_files(request))))


def _files(request: JobSpec) -> dict[str, Any]:
    return {name: getattr(request, name) for name in FILES}


def _target(job: JobContext, request: JobSpec) -> Target:
    return Target(
        engine=request.engine,
        master=request.master,
        engine_options=dict(request.engine_options),
        cluster_options=job.engines.cluster_options(job.config, request.engine),
    )


def _options(request: JobSpec) -> HaOptions:
    if Verdict.DUPLICATES_POSSIBLE not in request.start.accept_verdicts:
        return request.ha
    return request.ha.model_copy(update={"accept_duplicates": True})


def _graph(job: JobContext, request: JobSpec) -> JobGraph:
    """Return the graph without its files."""
    return JobGraph(
        job_id=job.job_id,
        name=request.name or job.job_id,
        application=_NOT_UPLOADED,
        arguments=tuple(request.arguments),
        packages=tuple(request.packages),
        conf={**request.conf, **request.resources.conf()},
        lineage=dict(request.lineage),
        env=dict(request.env),
        target=_target(job, request),
        driver_memory=request.driver_memory,
        options=_options(request),
    )
