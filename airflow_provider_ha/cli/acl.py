"""``spark-ha acl``: nodes in ZooKeeper whose ACL differs from the one that these credentials would set."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from airflow_provider_ha.cli import console
from airflow_provider_ha.cli.outcome import Exit
from airflow_provider_ha.cli.session import AsJson, Target, reported
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination._kazoo_acl import KazooAcls
from airflow_provider_ha.coordination.acls import AclReport, check, repair
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.views.acl import acls_view


app = typer.Typer(help="Check and repair the permissions of the cluster's nodes in ZooKeeper.", no_args_is_help=True)

_SHOWN = 20  # paths in a table; --json has all


@app.command("check")
def check_acls(context: typer.Context, as_json: AsJson = False) -> None:
    """List the nodes whose ACL differs from the one that these credentials would set. Needs only ZooKeeper.

    Exit 0: all are correct; 1: some differ; 2: unknown.
    """
    with _acls(context, as_json=as_json) as (session, base):
        report = check(session, base)
    _show(report, as_json=as_json, verb="has another ACL")
    raise typer.Exit(Exit.NO if report.left else Exit.YES)


@app.command("repair")
def repair_acls(
    context: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be set.")] = False,
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
        report = check(session, base) if dry_run else repair(session, base)
    _show(report, as_json=as_json, verb="would be set" if dry_run else "had another ACL")
    raise typer.Exit(Exit.NO if report.left else Exit.YES)


@contextmanager
def _acls(context: typer.Context, *, as_json: bool) -> Iterator[tuple[KazooAcls, str]]:
    with reported(as_json=as_json):
        target: Target = context.obj
        config = target.config()
        coordinator = KazooCoordinator.connect(config)
        try:
            yield KazooAcls(coordinator), ClusterPaths(config.root, config.cluster_id).base
        finally:
            coordinator.close()


def _show(report: AclReport, *, as_json: bool, verb: str) -> None:
    if as_json:
        console.print_json(acls_view(report))
        return
    shown = report.wrong[:_SHOWN]
    console.print_table(("NODE", "ACL"), ([each.path, each.acl] for each in shown), empty="every ACL is correct")
    if len(report.wrong) > len(shown):
        console.out.print(f"... and {len(report.wrong) - len(shown)} more; --json lists all")
    console.out.print(f"{report.nodes} nodes: {len(report.wrong)} {verb}, {report.left} left")
    if any(each.refused for each in report.wrong):
        console.err.print("nodes that refuse these credentials hide the nodes below them; add the old credentials")
