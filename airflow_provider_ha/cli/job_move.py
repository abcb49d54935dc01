"""``spark-ha job move``: move a job to another cluster, and so to another store."""

from __future__ import annotations

from typing import Annotated

import typer

from airflow_provider_ha.api.documents.operation import MoveView
from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.checkpoints.model import Verdict
from airflow_provider_ha.cli import console
from airflow_provider_ha.cli.job_requests import who
from airflow_provider_ha.cli.savepoint_target import assigned
from airflow_provider_ha.cli.session import AsJson, ClusterTarget, Force, JobId, cluster, other_cluster
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.jobs.job_context import CallerIdentity
from airflow_provider_ha.jobs.move.move_records import Move, MoveRequest


def move(
    context: typer.Context,
    job_id: JobId,
    to: Annotated[
        str,
        typer.Option(
            help="The cluster that the job goes to: an Airflow connection (`airflow ha`), or a path with a slash of a "
            "file with the fields of HaConfig as JSON.",
            metavar="CONNECTION|FILE",
        ),
    ],
    stop: Annotated[bool, typer.Option("--stop", help="Stop a job that runs, with a checkpoint.")] = False,
    conf: Annotated[
        list[str] | None,
        typer.Option(
            help="Spark conf that the job needs there, in addition to its own; KEY= removes one; repeatable.",
            metavar="KEY=VALUE",
        ),
    ] = None,
    packages: Annotated[
        list[str] | None, typer.Option("--package", help="Maven coordinates, in place of the job's; repeatable.")
    ] = None,
    master: Annotated[str | None, typer.Option(help="Spark master, in place of the job's.")] = None,
    accept_verdict: Annotated[
        list[Verdict] | None, typer.Option(help="Accept this verdict in addition to SAFE; repeatable.")
    ] = None,
    accept_unverified: Annotated[
        list[str] | None, typer.Option(help="Accept unverified facts about this query.", metavar="QUERY")
    ] = None,
    wait: Annotated[float, typer.Option(help="Seconds to wait for the end of the run.", min=1)] = 600.0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show steps and bytes; change nothing.")] = False,
    abandon: Annotated[
        bool, typer.Option("--abandon", help="Abandon the move, while the job has no run there.")
    ] = False,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Move a job to another cluster by savepoint and restore; its outputs stay in place.

    Repeat it after any failure: it continues where it stopped. Exit 0: the job has its run there; 1: it is refused.
    """
    target: ClusterTarget = context.obj
    acting = CallerIdentity(force=force)
    with cluster(context, as_json=as_json) as client:
        if dry_run and abandon:
            raise ConfigurationError("--dry-run and --abandon exclude each other", next_step="Use one of these options")
        request = _request(conf, packages, master, accept_verdict, accept_unverified, stop=stop, wait=wait)
        with HaClient.open(other_cluster(target, to)) as there:
            if abandon:
                outcome = client.abandon_move(job_id, there, acting=acting)
            elif dry_run:
                outcome = client.plan_move(job_id, there, request, acting=acting)
            else:
                outcome = client.move_job(job_id, there, request, acting=acting)
    if as_json:
        console.print_json(MoveView.of(outcome))
    else:
        _print(outcome)


def _request(
    conf: list[str] | None,
    packages: list[str] | None,
    master: str | None,
    accept_verdict: list[Verdict] | None,
    accept_unverified: list[str] | None,
    *,
    stop: bool,
    wait: float,
) -> MoveRequest:
    return MoveRequest(
        requested_by=who(),
        stop=stop,
        wait=wait,
        conf=_assigned(conf or []),
        packages=None if packages is None else tuple(packages),
        master=master,
        accept_verdicts=frozenset({Verdict.SAFE, *(accept_verdict or [])}),
        accept_unverified=frozenset(accept_unverified or []),
    )


def _assigned(values: list[str]) -> dict[str, str]:
    removed = {value.removesuffix("="): "" for value in values if value.endswith("=") and value.count("=") == 1}
    return assigned([value for value in values if value.removesuffix("=") not in removed], "--conf") | removed


def _print(outcome: Move) -> None:
    console.print_fields(
        {
            "job": outcome.job_id,
            "from": outcome.origin,
            "to": outcome.destination,
            "works in": outcome.place,
            "state": outcome.state,
            "source": outcome.source,
            "cut": console.cut_text(dict(outcome.cut)) if outcome.cut else None,
            "replayed": console.cut_text(dict(outcome.replayed)) if outcome.replayed else None,
            "files": outcome.files,
            "bytes": outcome.bytes,
            "verdict": outcome.verdict.value if outcome.verdict else None,
            "run": outcome.run,
        }
    )
    for number, step in enumerate(outcome.steps, start=1):
        console.out.print(f"{number}. {step}", markup=False)
