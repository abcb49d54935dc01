"""``spark-ha checkpoint verify``: any Spark checkpoint directory, to the requested depth."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from airflow_provider_ha.checkpoints.connectors.places import directory_at
from airflow_provider_ha.checkpoints.format.releases import installed_version, release
from airflow_provider_ha.checkpoints.verify.process_pool import cores
from airflow_provider_ha.checkpoints.verify.report import Report
from airflow_provider_ha.checkpoints.verify.verify import verify
from airflow_provider_ha.cli import console
from airflow_provider_ha.cli.misnamed import refuse_misnamed
from airflow_provider_ha.cli.outcome import Exit
from airflow_provider_ha.cli.savepoint_target import assigned
from airflow_provider_ha.cli.session import AsJson, reported
from airflow_provider_ha.cli.verification_report import print_proof, print_report
from airflow_provider_ha.control.verification.prove import (
    DEFAULT_DEADLINE,
    DEFAULT_HEAP,
    Application,
    Proof,
    ProofProgress,
    prove,
)
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.views.verification import proven_view, verification_view


class Depth(str, Enum):
    """Depth of the read."""

    QUICK = "quick"
    FULL = "full"


class DepthOfProof(str, Enum):
    """Depth of the read, or a check with Spark itself."""

    QUICK = "quick"
    FULL = "full"
    PROVE = "prove"


CORES = cores()
Processes = Annotated[
    int,
    typer.Option(
        "--processes", help="full: how many processes decode large state here.", min=1, show_default="one a core"
    ),
]
_ANSWER = {True: Exit.YES, False: Exit.NO, None: Exit.UNKNOWN}


def verify_directory(
    path: Annotated[
        str,
        typer.Argument(
            help="A Spark checkpoint directory (one query), managed or not: a path, s3://bucket/prefix or "
            "hdfs://namenode:8020/path.",
            metavar="PATH",
        ),
    ],
    arguments: Annotated[
        list[str] | None, typer.Argument(help="Arguments of the application, after --.", metavar="[-- ARGUMENTS]")
    ] = None,
    depth: Annotated[
        DepthOfProof,
        typer.Option(
            help="quick: names, sizes, logs and chains; full: every byte is decoded; prove: Spark itself loads one "
            "batch from a copy, and starts the query on it with no sink."
        ),
    ] = DepthOfProof.QUICK,
    spark_version: Annotated[
        str | None, typer.Option(help="Judge for this release, X.Y.Z; default: the installed one.", metavar="X.Y.Z")
    ] = None,
    sink: Annotated[
        str | None,
        typer.Option(
            help="Output directory of the query's file sink, a path or s3://bucket/prefix: its log is judged together "
            "with the checkpoint.",
            metavar="PATH",
        ),
    ] = None,
    processes: Processes = CORES,
    batch: Annotated[
        int | None, typer.Option(help="prove: which batch; default: the newest restorable one.", metavar="N")
    ] = None,
    application: Annotated[
        Path | None,
        typer.Option(help="prove: the script that starts the query; its arguments follow after --.", metavar="FILE"),
    ] = None,
    query: Annotated[
        str | None,
        typer.Option(
            help="prove: which query of the script; default: the one with this checkpoint location, or this name."
        ),
    ] = None,
    conf: Annotated[
        list[str] | None, typer.Option(help="prove: Spark's conf of the application; repeatable.", metavar="KEY=VALUE")
    ] = None,
    heap: Annotated[
        str | None, typer.Option(help=f"prove: memory of Spark's JVM; default: {DEFAULT_HEAP}.", metavar="SIZE")
    ] = None,
    deadline: Annotated[
        float | None,
        typer.Option(help=f"prove: seconds that Spark may take; default: {DEFAULT_DEADLINE:g}.", metavar="SECONDS"),
    ] = None,
    scratch: Annotated[
        Path | None,
        typer.Option(
            help="prove: directory in which the copy is made and removed; default: beside PATH, or where temporary "
            "files are when PATH is not on this host."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Report whether Spark can start from a checkpoint directory, and to which batches it could be restored.

    Exit 0: it can start and continues with the right state; 1: it cannot; 2: it is missing or could not be read.
    With --depth prove for one batch: 0: Spark did it; 1: it refused; 2: it gave no answer.
    """
    with reported(as_json=as_json):
        directory, output = directory_at(path), None if sink is None else directory_at(sink)
        if depth is DepthOfProof.PROVE:
            _check_release(spark_version)
            with _progress() as show:
                proof = prove(
                    directory,
                    batch=batch,
                    application=_application(application, arguments or [], conf or []),
                    query=query,
                    sink=output,
                    scratch_directory=scratch,
                    heap=heap or DEFAULT_HEAP,
                    deadline=DEFAULT_DEADLINE if deadline is None else deadline,
                    env=os.environ,
                    progress_to=show,
                )
            refuse_misnamed(path, directory, proof.verification)
            answer = _print_proof(path, proof, as_json=as_json)
        else:
            if any(word is not None for word in (arguments, batch, application, query, conf, heap, deadline, scratch)):
                raise ConfigurationError(
                    "batch, application, query, conf, heap, deadline and scratch require a proof",
                    next_step="Add --depth prove",
                )
            with console.progress("reading the state") as tell:
                report = verify(
                    directory,
                    depth=depth.value,
                    spark_version=spark_version,
                    sink=output,
                    tell=tell,
                    processes=processes,
                )
            refuse_misnamed(path, directory, report)
            answer = _print_report(path, report, as_json=as_json)
    raise typer.Exit(_ANSWER[answer])


def _print_report(path: str, report: Report, *, as_json: bool) -> bool | None:
    if as_json:
        console.print_json(verification_view(report))
    else:
        print_report(path, report)
    return report.startable


def _print_proof(path: str, proof: Proof, *, as_json: bool) -> bool | None:
    if as_json:
        console.print_json(proven_view(proof))
    else:
        print_report(path, proof.verification)
        print_proof(proof)
    return proof.proven


def _application(script: Path | None, arguments: list[str], conf: list[str]) -> Application | None:
    if script is None:
        if arguments or conf:
            raise ConfigurationError(
                "arguments and conf belong to an application, and none is named", next_step="Add --application FILE"
            )
        return None
    return Application(
        script=script.absolute(), arguments=tuple(arguments), conf=assigned(conf, "conf"), directory=Path.cwd()
    )


def _check_release(wanted: str | None) -> None:
    """Check the release: only the installed Spark can prove."""
    if release(wanted) != release(None):
        raise ConfigurationError(
            f"Spark {installed_version()} is installed, and a proof for {wanted} needs that release",
            next_step="Leave --spark-version out, or install that release in another environment and run it there",
        )


@contextmanager
def _progress() -> Iterator[Callable[[ProofProgress], None]]:
    """Show the current step on a terminal; nothing elsewhere."""
    with console.err.status("verifying") as status:
        yield lambda now: status.update(f"{now.doing} {now.done}/{now.of}" if now.of else now.doing)
