"""``spark-ha tree`` and ``spark-ha rebuild``: show the cluster's tree in ZooKeeper, and rebuild it from storage."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text
from rich.tree import Tree

from airflow_provider_ha.cli import console
from airflow_provider_ha.cli.completion import job_ids
from airflow_provider_ha.cli.outcome import Exit
from airflow_provider_ha.cli.session import AsJson, cluster
from airflow_provider_ha.control.administration.tree import TreeNode, read_tree
from airflow_provider_ha.control.client import HaClient
from airflow_provider_ha.control.rebuild import Applied, RebuildPlan, plan_rebuild, rebuild
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.errors import UnknownJobError
from airflow_provider_ha.views.rebuild import rebuild_view
from airflow_provider_ha.views.tree import tree_view


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
        console.print_json(tree_view(root, tree))
    elif tree is None:
        console.out.print(f"{root} does not exist: the cluster is empty", markup=False)
    else:
        console.print_tree(_branch(tree, Tree(_label(tree, root))))


def show_rebuild(
    context: typer.Context,
    yes: Annotated[bool, typer.Option("--yes", help="Create the nodes; without it only show them.")] = False,
    missing: Annotated[
        bool,
        typer.Option("--missing", help="Continue although ZooKeeper already has jobs, and create only missing nodes."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Rebuild the cluster's tree from storage alone, after ZooKeeper has lost its data.

    Without --yes it changes nothing. It never overwrites a node, and leaves a job with a leader alone.
    Exit 1: no nodes, or not all, could be created.
    """
    applied: tuple[Applied, ...] = ()
    with cluster(context, as_json=as_json) as client:
        plan = plan_rebuild(client.config, client.store, client.coordinator)
        if yes:
            applied = rebuild(client.config, client.coordinator, plan, missing_only=missing)
    if as_json:
        console.print_json(rebuild_view(plan, applied))
    else:
        _print_plan(client, plan, applied)
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


def _print_plan(client: HaClient, plan: RebuildPlan, applied: tuple[Applied, ...]) -> None:
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
            console.err.print(f"left as it is: {path} differs from storage", markup=False)
    for refused in (job for job in applied if job.refused):
        console.err.print(f"not rebuilt, job {refused.job_id}: {refused.refused}", markup=False)
    if not applied and plan.jobs:
        console.out.print("nothing was changed; add --yes to create the missing nodes")
