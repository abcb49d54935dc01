"""``spark-ha job``: inspect, stop and cancel jobs, release them from quarantine."""

from __future__ import annotations

import os
from enum import Enum
from typing import Annotated, Any

import typer

from airflow_provider_ha.cli import console
from airflow_provider_ha.cli.requests import WaitSeconds, await_operation, operation_id, who
from airflow_provider_ha.cli.session import AsJson, Force, JobId, cluster
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.control.administration.losses import Losses, losses_of
from airflow_provider_ha.control.client import HaClient, JobClient
from airflow_provider_ha.control.job.job_owner import Acting
from airflow_provider_ha.errors import HaError, UnknownJobError
from airflow_provider_ha.jobs import quarantine
from airflow_provider_ha.jobs.engine_options import engine_options, named_spark_home
from airflow_provider_ha.jobs.log_place import newest_log
from airflow_provider_ha.jobs.model import JobGraph
from airflow_provider_ha.jobs.presence import warning, watched
from airflow_provider_ha.jobs.site_conf import keys_of, site_defaults
from airflow_provider_ha.jobs.snapshot import JobSnapshot
from airflow_provider_ha.jobs.spark_release import installed_spark
from airflow_provider_ha.names import check_job_id
from airflow_provider_ha.recovery.restart import outage_of


app = typer.Typer(help="Inspect, stop and cancel jobs.", no_args_is_help=True)


class StopMode(str, Enum):
    """How a job is stopped."""

    SUSPEND = "suspend"
    TERMINATE = "terminate"


NO_RUN = "NO_RUN"  # in the place of a state: the job was erased, or its first run is being made


@app.command("list")
def list_jobs(context: typer.Context, as_json: AsJson = False) -> None:
    """List the jobs of the cluster with their state. Exit 0, also when there is none."""
    with cluster(context, as_json=as_json) as client:
        rows = [_summary(client, job_id) for job_id in client.list_jobs()]
    if as_json:
        console.print_json({"jobs": rows})
        return
    console.print_table(
        ("JOB", "STATE", "RUN", "EPOCH", "LEADER", "CHECKPOINT"),
        ([row["job_id"], row["state"], row["run"], row["epoch"], row["leader"], row["checkpoint"]] for row in rows),
        empty="no job is known in this cluster",
    )


@app.command()
def show(context: typer.Context, job_id: JobId, as_json: AsJson = False) -> None:
    """Show one job: state, leader, run, last failure, next attempt, queries, also those that are not started yet.

    Also what watches it and submits it again when its driver is lost; warns when nothing does, with what helps.

    Exit 1: there is no such job.
    """
    with cluster(context, as_json=as_json) as client:
        job = client.job(job_id)
        snapshot = job.snapshot()
        losses = _losses(client, job, snapshot)
        watching = watched(client.coordinator, client.paths.job(job_id))
    document = _document(snapshot) | losses.fields(snapshot)
    document |= {"watched_by": [*watching.tasks, *watching.cluster], "warning": warning(snapshot, watching)}
    if as_json:
        console.print_json(document)
        return
    document["failure"] = losses.last.sentence if losses.last is not None else None
    queries, not_started = document.pop("queries"), document.pop("not_started")
    alert, document["watched_by"] = document.pop("warning"), watching.sentence or None
    console.print_fields(document)
    rows = [("yes", name, query) for name, query in queries.items()]
    rows += [("not yet", name, query) for name, query in not_started.items()]
    console.print_table(
        ("QUERY", "STARTED", "COMMITTED", "PLANNED", "SINK"),
        ([name, started, query["committed"], query["planned"], query["sink"]] for started, name, query in rows),
        empty="no query has started yet",
    )
    if alert:
        console.out.print(f"[bold yellow]warning[/] {console.escaped(alert)}")


@app.command()
def graph(context: typer.Context, job_id: JobId, as_json: AsJson = False) -> None:
    """Show the persisted job graph. Values of Spark conf and environment are not shown: they may be secrets."""
    with cluster(context, as_json=as_json) as client:
        job = client.job(job_id)
        document = _graph_document(job, job.snapshot())
    if as_json:
        console.print_json(document)
    else:
        console.print_fields(document)


@app.command()
def stop(
    context: typer.Context,
    job_id: JobId,
    mode: Annotated[StopMode, typer.Option(help="suspend: stop with a checkpoint; terminate: drain first.")] = (
        StopMode.SUSPEND
    ),
    savepoint: Annotated[bool, typer.Option("--savepoint", help="Take a savepoint as well.")] = False,
    wait: WaitSeconds = 600.0,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Stop a job at a batch boundary. Exit 0: its run is FINISHED; 1: it could not be stopped, with the reason.

    A job that has lost its driver ends at once, with its newest retained checkpoint as the result.
    """
    with cluster(context, as_json=as_json) as client:
        job = client.job(job_id, acting=Acting(force=force))
        operation = job.request_stop(
            operation_id=operation_id("stop"), requested_by=who(), mode=mode.value, savepoint=savepoint
        )
        await_operation(job, operation, seconds=wait, as_json=as_json)


@app.command()
def cancel(
    context: typer.Context, job_id: JobId, wait: WaitSeconds = 120.0, force: Force = False, as_json: AsJson = False
) -> None:
    """Cancel a job at once; its latest checkpoint stays. Exit 0: its run is CANCELED."""
    with cluster(context, as_json=as_json) as client:
        job = client.job(job_id, acting=Acting(force=force))
        operation = job.request_cancel(operation_id=operation_id("cancel"), requested_by=who())
        await_operation(job, operation, seconds=wait, as_json=as_json)


@app.command()
def release(context: typer.Context, job_id: JobId, as_json: AsJson = False) -> None:
    """Release a job from quarantine, once its cause is repaired. Exit 1: it is not in quarantine."""
    with cluster(context, as_json=as_json) as client:
        reason = quarantine.release(client.coordinator, client.paths, check_job_id(job_id))
    if as_json:
        console.print_json({"job_id": job_id, "released": True, "reason": reason})
    else:
        console.out.print(f"{job_id} may be recovered again; it was in quarantine, because {console.escaped(reason)}")


def _summary(client: HaClient, job_id: str) -> dict[str, Any]:
    # One job that cannot be read must not hide the others (FLINK-5193).
    try:
        snapshot = client.job(job_id).snapshot()
    except HaError as error:
        return dict.fromkeys(("run", "epoch", "leader", "checkpoint")) | {
            "job_id": job_id,
            "state": "UNREADABLE",
            "error": str(error),
        }
    return {
        "job_id": job_id,
        "state": _state(snapshot),
        "run": snapshot.run.run.number if snapshot.run else None,
        "epoch": snapshot.epoch,
        "leader": f"{snapshot.leader.host}:{snapshot.leader.pid}" if snapshot.leader else None,
        "checkpoint": snapshot.latest_checkpoint,
        "error": None,
    }


def _document(snapshot: JobSnapshot) -> dict[str, Any]:
    run = snapshot.run
    place = newest_log(snapshot.job_id, run)
    return {
        "job_id": snapshot.job_id,
        "state": _state(snapshot),
        "run": run.run.number if run else None,
        "started_from": run.run.start.kind.value if run else None,
        "owner": run.run.owner if run else None,
        "claim_mode": run.run.start.claim_mode.value if run else None,
        "epoch": snapshot.epoch,
        "leader": console.plain(snapshot.leader),
        "result": console.plain(run.result) if run else None,
        "checkpoint": snapshot.latest_checkpoint,
        "message": snapshot.status.message if snapshot.status else "",
        "outage": outage_of(run) if run else "",
        "log": f"{place.host}:{place.path}" if place else None,
        "log_command": place.command if place else None,
        "queries": console.plain(snapshot.status.queries) if snapshot.status else {},
        "not_started": console.plain(snapshot.status.not_started) if snapshot.status else {},
    }


def _state(snapshot: JobSnapshot) -> str:
    """Return the state of the newest run; of an erased job nothing but its epoch is left."""
    return snapshot.state.value if snapshot.run is not None else NO_RUN


def _losses(client: HaClient, job: JobClient, snapshot: JobSnapshot) -> Losses:
    # The graph is in storage, which may be away: what ZooKeeper knows is shown all the same.
    try:
        options = job.graph(snapshot.run.run.graph).options if snapshot.run is not None else None
    except HaError:
        options = None
    return losses_of(snapshot, options, now=client.clock.now())


def _site_conf(graph: JobGraph, config: HaConfig) -> dict[str, Any] | None:
    """Return the site's file on this host, with its keys; ``None`` where there is none, or it cannot be read."""
    home = named_spark_home(engine_options(config, graph.target))
    path = site_defaults(home or installed_spark().home, os.environ)
    try:
        return None if path is None else {"file": str(path), "keys": keys_of(path)}
    except OSError:
        return None


def _graph_document(job: JobClient, snapshot: JobSnapshot) -> dict[str, Any]:
    if snapshot.run is None:
        raise UnknownJobError(f"job {job.job_id!r} has no run yet", next_step="Submit it first")
    graph = job.graph(snapshot.run.run.graph)
    document = graph.model_dump(mode="json", exclude={"conf", "env"})
    document["conf_keys"] = sorted(graph.conf)
    document["env_keys"] = sorted(graph.env)
    document["site_conf"] = _site_conf(graph, job.config)
    document["sha256"] = snapshot.run.run.graph.sha256
    document["recovered_by_a_new_leader"] = snapshot.graph is not None
    return document
