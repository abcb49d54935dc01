"""``spark-ha``: inspect jobs, checkpoints and savepoints, and act on them, without Airflow."""

from __future__ import annotations

import logging
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from airflow_provider_ha import __version__
from airflow_provider_ha.cli import (
    archive,
    checkpoint,
    cluster,
    console,
    delete,
    job,
    package_files,
    savepoint,
    storage,
)
from airflow_provider_ha.cli.cluster import recover_job
from airflow_provider_ha.cli.exit_codes import RootGroup, exit_code
from airflow_provider_ha.cli.job_actions import (
    SUBMIT_EXAMPLES,
    cancel,
    fail_over,
    hand_over,
    move,
    release,
    stop,
    submit,
)
from airflow_provider_ha.cli.restore import plan, restore
from airflow_provider_ha.cli.session import ClusterTarget
from airflow_provider_ha.cli.verify import verify_directory
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.jobs.options.job_spec import SparkPlace


app = typer.Typer(
    name="spark-ha",
    cls=RootGroup,
    help="High availability of Spark Structured Streaming jobs.",
    epilog=(
        "Example: spark-ha job submit count count.py -- in out\n\n"
        "Exit codes: 0 done or true, 1 the answer is no, 2 the answer is unknown, 64 called wrongly, 130 Ctrl-C came "
        "before the answer of `job stop`, `job cancel`, `job hand-over`, `job fail-over`, `checkpoint trigger` or "
        "`savepoint trigger`; of `job submit` it is 2."
    ),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(job.app, name="job")
job.app.command("submit", epilog=SUBMIT_EXAMPLES)(submit)
job.app.command("stop")(stop)
job.app.command("cancel")(cancel)
job.app.command("hand-over")(hand_over)
job.app.command("fail-over")(fail_over)
job.app.command("restore")(restore)
job.app.command("recover")(recover_job)
job.app.command("move")(move)
job.app.command("release")(release)
app.add_typer(checkpoint.app, name="checkpoint")
checkpoint.app.command("verify")(verify_directory)
checkpoint.app.command("plan")(plan)
app.add_typer(savepoint.app, name="savepoint")
app.add_typer(savepoint.drill_app, name="drill")
app.add_typer(delete.app, name="delete")
app.add_typer(cluster.app, name="cluster")
app.add_typer(cluster.acl_app, name="acl")
app.add_typer(storage.app, name="storage")
app.add_typer(archive.app, name="archive")
app.add_typer(package_files.app, name="metrics")
app.command("examples")(package_files.examples)


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"spark-ha {__version__}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    zookeeper: Annotated[
        str | None, typer.Option(help="ZooKeeper hosts. \\[env: SPARK_HA_ZOOKEEPER]", metavar="HOST:PORT,...")
    ] = None,
    storage_root: Annotated[
        str | None,
        typer.Option(help="file:///path or s3://bucket/prefix. \\[env: SPARK_HA_STORAGE_ROOT]", metavar="URI"),
    ] = None,
    cluster_id: Annotated[
        str | None,
        typer.Option(help="Namespace of the jobs. Default: default. \\[env: SPARK_HA_CLUSTER_ID]", metavar="ID"),
    ] = None,
    root: Annotated[
        str | None,
        typer.Option(help="Root znode of all clusters. Default: spark-ha. \\[env: SPARK_HA_ROOT]", metavar="ZNODE"),
    ] = None,
    work_root: Annotated[
        str | None,
        typer.Option(
            help="Root of working directories, file:///path or s3://bucket/prefix. Default: the storage root. "
            "\\[env: SPARK_HA_WORK_ROOT]",
            metavar="URI",
        ),
    ] = None,
    version: Annotated[  # noqa: ARG001  # handled by its callback
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Name the cluster. Credentials come from SPARK_HA_DIGEST_AUTH only: a command line is readable by all users."""
    target: ClusterTarget = context.ensure_object(ClusterTarget)
    target.options.update(
        zookeeper=zookeeper, storage_root=storage_root, cluster_id=cluster_id, root=root, work_root=work_root
    )


def run(
    arguments: Sequence[str],
    *,
    prog_name: str,
    fallback: Callable[[], HaConfig] | None = None,
    named: Callable[[str], HaConfig] | None = None,
    places: Callable[[str], SparkPlace] | None = None,
) -> None:
    """Run the command with *arguments* and exit.

    :param fallback: Where the cluster is found when neither options nor environment name one.
    :param named: Where another cluster is found by its name.
    :param places: Where drivers run by the id of a connection.
    """
    app(args=list(arguments), prog_name=prog_name, obj=ClusterTarget(fallback=fallback, named=named, places=places))


def main() -> None:
    """Entry point of ``spark-ha``."""
    app(prog_name="spark-ha", obj=ClusterTarget())


def run_words(args: Namespace) -> None:
    """Run ``spark-ha <noun> <words>`` for ``airflow ha <noun> <words>``."""
    log_to_stderr()
    try:
        # Not at the top: Airflow's own command would end with the stack trace that an unsupported release raises.
        from airflow_provider_ha.hooks._connection import read_place  # noqa: PLC0415  # see the comment
    except ConfigurationError as error:
        console.print_error(error, as_json="--json" in args.words)
        raise SystemExit(exit_code(error)) from None
    run(
        [args.subcommand, *args.words],
        prog_name="airflow ha",
        fallback=_default_connection,
        named=_connection,
        places=read_place,
    )


def log_to_stderr() -> None:
    """Move log output away from stdout, the default of Airflow 3.0: stdout is for the document of ``--json``."""
    root = logging.getLogger()
    for handler in list(root.handlers):
        if isinstance(handler, logging.StreamHandler) and handler.stream is sys.stdout:
            moved = logging.StreamHandler(sys.stderr)
            moved.setFormatter(handler.formatter)
            moved.setLevel(handler.level)
            moved.filters = list(handler.filters)  # this includes the filter that masks secrets
            root.removeHandler(handler)
            root.addHandler(moved)


def _default_connection() -> HaConfig:
    from airflow_provider_ha.hooks.spark_ha import SparkHaHook  # noqa: PLC0415  # as above

    return SparkHaHook().get_config()


def _connection(conn_id: str) -> HaConfig:
    from airflow_provider_ha.hooks.spark_ha import SparkHaHook  # noqa: PLC0415  # as above

    return SparkHaHook(conn_id).get_config()
