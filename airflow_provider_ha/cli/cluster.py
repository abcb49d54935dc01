"""``spark-ha cluster`` and ``acl``: leader, recovery and znodes of a cluster."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.text import Text
from rich.tree import Tree

from airflow_provider_ha.api.documents.history import (
    LeadingLineView,
    ReconciledLineView,
    cluster_show_view,
    recovery_view,
)
from airflow_provider_ha.api.documents.stores import AclsView, TreeView, rebuild_view
from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.cli import console
from airflow_provider_ha.cli.completion import job_ids
from airflow_provider_ha.cli.exit_codes import Exit
from airflow_provider_ha.cli.job_requests import who
from airflow_provider_ha.cli.session import (
    AsJson,
    ClusterTarget,
    DryRun,
    JobId,
    Yes,
    answer,
    cluster,
    confirm,
    reported,
)
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination._kazoo_acls import AclReport, KazooAcls, check, repair
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.errors import ConfigurationError, LeadershipUnavailableError, UnknownJobError
from airflow_provider_ha.fleet.cluster_leader import ClusterLeader
from airflow_provider_ha.fleet.reconciler import ReconcileOutcome, ReconcileResult, recover_one
from airflow_provider_ha.fleet.znode_tree import TreeNode, read_tree
from airflow_provider_ha.jobs.rebuild.rebuild import RebuildPlan, RebuildResult, plan_rebuild, rebuild
from airflow_provider_ha.jobs.runs.watchers import read_cluster_leader
from airflow_provider_ha.names import check_job_id


app = typer.Typer(
    help="Show the leader of a cluster, recover its jobs, show and rebuild its tree in ZooKeeper.", no_args_is_help=True
)
acl_app = typer.Typer(
    help="Check and repair the permissions of the cluster's nodes in ZooKeeper.", no_args_is_help=True
)

_SHOWN = 20  # paths in a table; --json has all


@acl_app.command("check")
def check_acls(context: typer.Context, as_json: AsJson = False) -> None:
    """List the nodes whose ACL differs from the one that these credentials would set. Needs only ZooKeeper.

    Exit 0: all are correct; 1: some differ; 2: unknown.
    """
    with _acls(context, as_json=as_json) as (session, base):
        report = check(session, base)
    _show(report, as_json=as_json, verb="has another ACL")
    raise typer.Exit(Exit.NO if report.left else Exit.YES)


@acl_app.command("repair")
def repair_acls(
    context: typer.Context,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Give every node the ACL of these credentials. Repeatable, and safe while jobs run with the same credentials.

    A process with other credentials is locked out: see the page about changing the password. Exit 0: all are correct;
    1: some refuse these credentials, or would be set (--dry-run); 2: unknown.
    """
    with _acls(context, as_json=as_json) as (session, base):
        if not session.has_credentials:
            raise ConfigurationError(
                "no credentials are set to protect the nodes",
                next_step="Set SPARK_HA_DIGEST_AUTH or SPARK_HA_SASL_AUTH, or the login of the connection",
            )
        report = check(session, base)
        if not dry_run and report.left:
            confirm(
                "no permission is changed",
                f"Set the ACL of {report.left} nodes to the one of these credentials?",
                yes=yes,
                as_json=as_json,
                show=lambda: _show(report, as_json=False, verb="would be set"),
            )
            report = repair(session, base)
    _show(report, as_json=as_json, verb="would be set" if dry_run else "had another ACL")
    raise typer.Exit(Exit.NO if report.left else Exit.YES)


@contextmanager
def _acls(context: typer.Context, *, as_json: bool) -> Iterator[tuple[KazooAcls, str]]:
    with reported(as_json=as_json):
        target: ClusterTarget = context.obj
        config = target.config()
        coordinator = KazooCoordinator.connect(config)
        try:
            yield KazooAcls(coordinator), ClusterPaths(config.root, config.cluster_id).base
        finally:
            coordinator.close()


def _show(report: AclReport, *, as_json: bool, verb: str) -> None:
    if as_json:
        console.print_json(AclsView.of(report, found=len(report.wrong)))
        return
    shown = report.wrong[:_SHOWN]
    console.print_table(("NODE", "ACL"), ([each.path, each.acl] for each in shown), empty="every ACL is correct")
    if len(report.wrong) > len(shown):
        console.out.print(f"... and {len(report.wrong) - len(shown)} more; --json lists all")
    console.out.print(f"{report.nodes} nodes: {len(report.wrong)} {verb}, {report.left} left")
    if any(each.refused for each in report.wrong):
        console.err.print("nodes that refuse these credentials hide the nodes below them; add the old credentials")


@app.command("tree")
def show_tree(
    context: typer.Context,
    job_id: Annotated[
        str | None, typer.Argument(help="Id of one job; default: the cluster.", metavar="JOB", autocompletion=job_ids)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show ZooKeeper's content of the cluster, or of one job: every node, decoded. Exit 1: the job does not exist.

    With --json it is a complete export. Nodes hold no secrets; of an undecodable node only the digest is shown.
    """
    with cluster(context, as_json=as_json) as client:
        paths = ClusterPaths(client.config.root, client.config.cluster_id)
        root = paths.base if job_id is None else paths.job(job_id).base
        tree = read_tree(client.coordinator, root)
        if tree is None and job_id is not None:
            raise UnknownJobError(
                f"job {job_id!r} is not known in cluster {client.config.cluster_id!r}",
                next_step="See `spark-ha job list`",
            )
    if as_json:
        console.print_json(TreeView.model_validate({"root": root, "tree": tree}))
    elif tree is None:
        console.out.print(f"{root} does not exist: the cluster is empty", markup=False)
    else:
        console.print_tree(_branch(tree, Tree(_label(tree, root))))


@app.command("rebuild")
def show_rebuild(
    context: typer.Context,
    missing: Annotated[
        bool,
        typer.Option("--missing", help="Continue although ZooKeeper already has jobs, and create only missing nodes."),
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Rebuild the cluster's tree from storage alone, after ZooKeeper has lost its data.

    It never overwrites a node, and leaves a job with a leader alone. Exit 1: no nodes, or not all, could be created.
    """
    applied: tuple[RebuildResult, ...] = ()
    with cluster(context, as_json=as_json) as client:
        plan = plan_rebuild(client.config, client.store, client.coordinator)
        if not dry_run and plan.jobs:
            confirm(
                "no node is created",
                "Create the missing nodes?",
                yes=yes,
                as_json=as_json,
                show=lambda: _print_plan(client, plan, ()),
            )
            applied = rebuild(client.config, client.coordinator, plan, missing_only=missing)
    if as_json:
        console.print_json(rebuild_view(plan, applied))
    else:
        _print_plan(client, plan, applied)
        if dry_run:
            console.out.print("this was a dry run: ZooKeeper is unchanged")
    raise typer.Exit(Exit.NO if any(job.refused for job in applied) else Exit.YES)


def _label(node: TreeNode, name: str) -> Text:
    label = Text(name, style="bold red" if node.undecodable else "bold")
    label.append(f" v{node.version}", style="dim")
    if node.ephemeral_owner:
        label.append(f" ephemeral of session 0x{node.ephemeral_owner:x}", style="yellow")
    if node.summary:
        label.append(f"  {node.summary}", style="not bold")
    return label


def _branch(node: TreeNode, tree: Tree) -> Tree:
    for child in node.children:
        _branch(child, tree.add(_label(child, child.name)))
    return tree


def _print_plan(client: HaClient, plan: RebuildPlan, applied: tuple[RebuildResult, ...]) -> None:
    done = {job.job_id: job for job in applied}
    console.print_table(
        ("JOB", "RUNS", "CHECKPOINTS", "SAVEPOINTS", "EPOCH AT LEAST", "NODES MISSING", "MADE"),
        (
            [
                job.job_id,
                " ".join(f"{number}:{state.value}" for number, state in job.states.items()),
                " ".join(map(str, job.checkpoints)),
                len(job.savepoints),
                job.epoch,
                len(plan.missing[job.job_id]),
                len(done[job.job_id].created) if job.job_id in done else None,
            ]
            for job in plan.jobs
        ),
        empty=f"storage ({client.store.uri}) knows no job",
    )
    for job in plan.jobs:
        for problem in job.problems:
            console.err.print(f"not used, job {job.job_id}: {problem}", markup=False)
        for path in plan.kept[job.job_id]:
            console.err.print(f"not changed: {path} differs from storage", markup=False)
    for refused in (job for job in applied if job.refused):
        console.err.print(f"not rebuilt, job {refused.job_id}: {refused.refused}", markup=False)


@app.command()
def show(context: typer.Context, as_json: AsJson = False) -> None:
    """Show the process that recovers the jobs of the cluster, and the time since its last inspection of a job.

    Exit 0: the cluster has a leader; 1: it has no leader; 2: unknown.
    """
    with cluster(context, as_json=as_json) as client:
        leader = read_cluster_leader(client.coordinator, client.paths)
        shown = cluster_show_view(client.config.cluster_id, leader, now=client.clock.now())
    console.show(shown, as_json=as_json)
    answer(yes=leader is not None)


_NEEDS_A_PERSON = frozenset(
    {
        ReconcileOutcome.QUARANTINED,
        ReconcileOutcome.IN_QUARANTINE,
        ReconcileOutcome.GIVEN_UP,
        ReconcileOutcome.DECISION_NEEDED,
    }
)


_SILENT = frozenset({ReconcileOutcome.LEFT_ALONE, ReconcileOutcome.PENDING})


_NOT_FINISHED = frozenset({ReconcileOutcome.NOT_KNOWN, ReconcileOutcome.PENDING})


@app.command()
def recover(
    context: typer.Context,
    watch: Annotated[
        bool, typer.Option("--watch", help="Wait until the cluster has no leader, then recover until the end.")
    ] = False,
    wait: Annotated[
        float, typer.Option(help="Seconds to wait for restart delays and for submissions on their way.", min=0)
    ] = 60.0,
    address: Annotated[
        str, typer.Option(help="Address shown to contenders that are refused; host and pid when left out.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Recover every job whose driver is lost, and clean up after ended jobs, as the cluster's leader.

    Exit 0: all is done (with --watch: it was stopped). 1: another process leads the cluster, or a job needs a person
    (it is in quarantine, or has used up its attempts). 2: the state of a job was still unknown after the wait, or the
    leadership was lost: start a fresh process. `job recover` recovers one job, without leading the cluster.
    """
    with cluster(context, as_json=as_json) as client:
        leader = ClusterLeader(client, by=who(), address=address)
        code = _watch_recovery(leader, as_json=as_json) if watch else _recover(client, leader, wait, as_json=as_json)
    raise typer.Exit(code)


def recover_job(context: typer.Context, job_id: JobId, as_json: AsJson = False) -> None:
    """Submit a job again if its driver is lost, without the delay of its restart strategy.

    Exit 0: it is submitted, on its way, or already led. 1: it is in quarantine, or over. `cluster recover` recovers
    every job of the cluster, and `--watch` keeps at it.
    """
    with cluster(context, as_json=as_json) as client:
        _print_recovery(client, 0, [recover_one(client, check_job_id(job_id), by=who())], as_json=as_json)


def _recover(client: HaClient, leader: ClusterLeader, wait: float, *, as_json: bool) -> Exit:
    with leader:
        leader.lead(timeout=0)
        epoch, attended = leader.epoch, leader.settle(wait)
        leader.collect_blobs()
    _print_recovery(client, epoch, attended, as_json=as_json)
    return _recovery_exit(attended)


def _print_recovery(client: HaClient, epoch: int, attended: Sequence[ReconcileResult], *, as_json: bool) -> None:
    if as_json:
        console.print_json(recovery_view(client.config.cluster_id, epoch, attended))
    else:
        console.print_table(
            ("JOB", "OUTCOME", "DETAIL"),
            ([each.job_id, each.outcome.value, each.detail] for each in attended),
            empty="no job is known in this cluster",
        )


def _watch_recovery(leader: ClusterLeader, *, as_json: bool) -> Exit:
    """Lead until SIGTERM or SIGINT: then release the lock immediately, instead of after a session timeout."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    said: dict[str, ReconcileResult] = {}

    def say(attended: ReconcileResult) -> None:
        """Print news about a job; unchanged and waiting jobs get no line."""
        before = said.get(attended.job_id)
        said[attended.job_id] = attended
        if attended.outcome not in _SILENT and (before is None or before.outcome is not attended.outcome):
            console.print_line(ReconciledLineView.of(attended, outcome=attended.outcome.value), as_json=as_json)

    with leader:
        try:
            leader.lead(timeout=None, stop=stop)
        except LeadershipUnavailableError:
            if stop.is_set():
                return Exit.YES
            raise
        console.print_line(LeadingLineView(epoch=leader.epoch), as_json=as_json)
        leader.watch(stop, say)
    return Exit.YES


def _recovery_exit(attended: Sequence[ReconcileResult]) -> Exit:
    if any(each.outcome in _NOT_FINISHED for each in attended):
        return Exit.UNKNOWN
    return Exit.NO if any(each.outcome in _NEEDS_A_PERSON for each in attended) else Exit.YES
