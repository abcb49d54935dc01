"""Session of a command: its cluster, conversion of errors to exit codes, confirmation and repetition.

An outage of ZooKeeper or of the storage is shown, and the command waits for its end: a person who watches a job at
night wants to see when it is over.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import sleep
from typing import Annotated, Any

import typer

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.cli import console
from airflow_provider_ha.cli.completion import job_ids
from airflow_provider_ha.cli.exit_codes import Exit, exit_code
from airflow_provider_ha.config import VARIABLES, HaConfig
from airflow_provider_ha.errors import ConfigurationError, HaError
from airflow_provider_ha.jobs.options.job_spec import SparkPlace
from airflow_provider_ha.names import check_job_id


Watch = Annotated[bool, typer.Option("--watch", help="Repeat until Ctrl-C.")]
Interval = Annotated[float, typer.Option(help="With --watch: seconds between two outputs.", min=0.5)]
INTERVAL = 2.0


def repeated(show: Callable[[], None], every: float | None) -> None:
    """Call *show* once, or until Ctrl-C; a terminal is cleared before each.

    :param every: Seconds between two calls; ``None`` for one call.
    :raises HaError: The first call failed, or a later one for a reason that waiting does not resolve.
    """
    if every is None:
        show()
        return
    shown = False
    try:
        while True:
            if console.out.is_terminal:
                console.out.clear()
            try:
                show()
                shown = True
            except HaError as error:
                if not (shown and error.retryable):
                    raise
                console.print_error(error, as_json=False)
            console.out.file.flush()
            sleep(every)
    except KeyboardInterrupt:
        return


def help_examples(*lines: str) -> str:
    """Return the end of a help text with one command in each line."""
    return "\n\n".join(("Examples:", *lines))  # lines of a paragraph would be joined


AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Skip the confirmation.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show the effects.")]
Force = Annotated[bool, typer.Option("--force", help="Act although the job belongs to a DAG.")]
JobId = Annotated[str, typer.Argument(help="Id of the job.", metavar="JOB", autocompletion=job_ids)]


@dataclass(slots=True)
class ClusterTarget:
    """Location of the cluster: options first, then ``SPARK_HA_*``, then *fallback* (Airflow's connection).

    Settings are never mixed with the connection: one option or variable requires the others too. Otherwise a command
    with
    half of its settings could change another cluster than the intended one.

    :param options: Values of the command line; ``None`` for missing ones.
    :param fallback: Returns the configuration without options and environment.
    :param named: Returns the configuration of another cluster by its name (Airflow's connection id).
    :param places: Returns the place of drivers by the id of a connection of the Spark provider.
    """

    options: dict[str, Any] = field(default_factory=dict)
    fallback: Callable[[], HaConfig] | None = None
    named: Callable[[str], HaConfig] | None = None
    places: Callable[[str], SparkPlace] | None = None

    def driver_place(self, spark_conn_id: str | None) -> SparkPlace:
        """Return the place of drivers; this host without a connection.

        :raises ConfigurationError: No connections are known here, or this one names no place.
        """
        if not spark_conn_id:
            return SparkPlace()
        if self.places is None:
            raise ConfigurationError(
                f"{spark_conn_id!r} is the id of an Airflow connection, which `spark-ha` does not know",
                next_step="Use `airflow ha job submit`, or name --master and --engine",
            )
        return self.places(spark_conn_id)

    def config(self) -> HaConfig:
        """Return the validated configuration.

        :raises ConfigurationError: No setting names a cluster, one is missing, or a value is wrong.
        """
        said = any(self.options.values()) or any(map(os.environ.get, VARIABLES))
        if self.fallback is not None and not said:
            return self.fallback()
        return HaConfig.from_env(**self.options)


def other_cluster(target: ClusterTarget, word: str) -> HaConfig:
    """Return the configuration of another cluster.

    :param word: With a slash, the path of a file as :meth:`HaConfig.from_file` reads it; otherwise a connection id.
    :raises ConfigurationError: It cannot be used, or no connections are known here.
    """
    if "/" in word:
        return HaConfig.from_file(Path(word))
    if target.named is None:
        raise ConfigurationError(
            f"{word!r} is the id of an Airflow connection, which `spark-ha` does not know",
            next_step=f"Use `airflow ha`, or name a file that only you can read, ./{word}.json, with the fields of "
            "HaConfig",
        )
    return target.named(word)


@contextmanager
def cluster(context: typer.Context, *, as_json: bool) -> Iterator[HaClient]:
    """Open the cluster, and convert errors to one clear sentence and an exit code."""
    with reported(as_json=as_json):
        if isinstance(job_id := context.params.get("job_id"), str):
            check_job_id(job_id)  # before a request to a server, which may be unavailable
        target: ClusterTarget = context.obj
        with HaClient.open(target.config()) as client:
            yield client


@contextmanager
def reported(*, as_json: bool) -> Iterator[None]:
    """Turn errors of this package into a message and an exit code; a user never sees a stack trace for a mistake."""
    try:
        yield
    except HaError as error:
        console.print_error(error, as_json=as_json)
        raise typer.Exit(exit_code(error)) from error


def answer(*, yes: bool) -> None:
    """End the command with 0 or 1."""
    raise typer.Exit(Exit.YES if yes else Exit.NO)


def confirm(stays: str, question: str, *, yes: bool, as_json: bool, show: Callable[[], None] = lambda: None) -> None:
    """Ask, unless the call has ``--yes``; a no ends the command with exit code 1.

    :param stays: The unchanged object, for the error without a terminal: "job 'orders' is not deleted".
    :param show: Called before the question or the refusal, to print its object; not for JSON.
    """
    if yes:
        return
    if not as_json:
        show()
    if as_json or not sys.stdin.isatty():
        with reported(as_json=as_json):
            raise ConfigurationError(f"{stays} without a confirmation", next_step="Add --yes")
    if not typer.confirm(question, err=True):
        answer(yes=False)
