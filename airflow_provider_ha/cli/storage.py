"""``spark-ha storage``: whether it works and at which cost, and objects in it that no record needs."""

from __future__ import annotations

from typing import Annotated

import typer

from airflow_provider_ha.cli import console
from airflow_provider_ha.cli.outcome import Exit
from airflow_provider_ha.cli.session import AsJson, cluster
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.pointers.orphans import Orphans, delete_orphans, find_orphans
from airflow_provider_ha.storage.store import ObjectInfo
from airflow_provider_ha.views.storage import StorageCheckView, orphans_view


app = typer.Typer(help="Check and clean up storage.", no_args_is_help=True)


@app.command()
def check(context: typer.Context, as_json: AsJson = False) -> None:
    """Write, read and remove a probe in storage and in the work root, and name what works at a cost.

    Exit 0: they work, at any cost; 2: they do not.
    """
    with cluster(context, as_json=as_json) as client:
        notes = client.check()
        config = client.config
    if as_json:
        console.print_json(StorageCheckView(storage_root=config.storage_root, work_root=config.work_root, notes=notes))
        return
    console.out.print(f"ZooKeeper {config.zookeeper} answers and {config.storage_root} is writable", markup=False)
    for note in notes:
        console.err.print(f"note: {note}", markup=False)


@app.command()
def orphans(
    context: typer.Context,
    delete: Annotated[bool, typer.Option("--delete", help="Delete them; without it they are only shown.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show blobs that no run, job graph, checkpoint or savepoint names and that are older than 24 hours.

    With --delete they are removed, unless anything that may name blobs could not be read. Exit 2: it could not.
    """
    with cluster(context, as_json=as_json) as client:
        paths = ClusterPaths(client.config.root, client.config.cluster_id)
        found = find_orphans(client.coordinator, paths, client.store, client.area, clock=client.clock)
        deleted = delete_orphans(client.store, found) if delete and not found.problems else []
    if as_json:
        console.print_json(orphans_view(found, [info.key for info in deleted]))
    else:
        _print(found, deleted, delete=delete)
    if found.problems:
        raise typer.Exit(Exit.UNKNOWN)


def _print(found: Orphans, deleted: list[ObjectInfo], *, delete: bool) -> None:
    gone = {info.key for info in deleted}
    console.print_table(
        ("BLOB", "BYTES", "LAST USED", "DELETED"),
        ([info.key, info.size, info.modified, "yes" if info.key in gone else "no"] for info in found.garbage),
        empty="no blob is needless",
    )
    console.out.print(f"{found.blobs} blobs: {found.named} named, {found.young} younger than 24 hours")
    for problem in found.problems:
        console.err.print(f"could not be read: {problem.where}: {problem.reason}", markup=False)
    if delete and found.problems:
        console.err.print("nothing was deleted, because what could not be read may name blobs")
