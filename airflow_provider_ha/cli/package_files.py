"""Commands that need files of this package or write files: ``spark-ha examples`` and ``spark-ha metrics``.

``examples`` copies the example DAGs into Airflow's DAGs folder. ``metrics`` lists the targets of the drivers' metrics
for Prometheus, and copies files for Prometheus and Grafana.
"""

from __future__ import annotations

import json
import os
import socket
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from airflow_provider_ha.api.documents.job import MetricsTargetView, out_of_reach, targets_of
from airflow_provider_ha.api.documents.view import CopiedFilesView
from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.cli import console
from airflow_provider_ha.cli.session import INTERVAL, AsJson, Interval, Watch, cluster, repeated, reported
from airflow_provider_ha.errors import ConfigurationError, HaError


MONITORING = Path(__file__).parents[1] / "monitoring"
app = typer.Typer(help="Find the metrics of the drivers.", no_args_is_help=True)
# A wheel has them in the package, a clone next to it.
_PLACES = (Path(__file__).parents[1] / "example_dags", Path(__file__).parents[2] / "dags")

_NEXT = """\
Next:
1. Create a connection of type Spark HA named spark_ha_default in the UI. `airflow ha storage check` tests it, and
   so does the button Test, which [core] test_connection = Enabled in airflow.cfg switches on.
2. Airflow shows the DAGs after its next scan, paused. Unpaused they ignore a job that does not exist.
3. Each DAG acts on the job of its parameter job_id ({job} by default). To run your own script, copy flight_delays.py
   and name the script in application=."""


@dataclass(frozen=True, slots=True)
class CopiedFiles:
    """Result of a copy.

    :param written: New or replaced files, relative to the directory.
    :param unchanged: Existing files with the same content.
    """

    directory: Path
    written: tuple[str, ...]
    unchanged: tuple[str, ...]


def examples(
    directory: Annotated[
        Path, typer.Argument(help="Target: the DAGs folder of Airflow, or a new directory.", metavar="DIR")
    ],
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
    as_json: AsJson = False,
) -> None:
    """Copy the example DAGs and their application. Needs no cluster. Exit 64: a file already exists; see --force."""
    with reported(as_json=as_json):
        copied = copy_examples(directory.absolute(), force=force)
    if as_json:
        console.print_json(CopiedFilesView.of(copied))
        return
    print_copied(copied)
    console.out.print(_NEXT.format(job="flight_delays"), markup=False)


def copy_examples(directory: Path, *, force: bool = False) -> CopiedFiles:
    """Copy all examples; as :func:`copy_files`."""
    source = examples_directory()
    names = [path.relative_to(source).as_posix() for path in sorted(source.rglob("*.py"))]
    return copy_files(source, names, directory, force=force)


def print_copied(copied: CopiedFiles) -> None:
    """Print a line for each file, written or kept."""
    for name in copied.written:
        console.out.print(f"wrote {copied.directory / name}", markup=False)
    for name in copied.unchanged:
        console.out.print(f"kept {copied.directory / name}, which is identical", markup=False)


def copy_files(source: Path, names: Sequence[str], directory: Path, *, force: bool) -> CopiedFiles:
    """Copy files of this package; none if any would overwrite another content.

    :param names: Relative to *source*, and to *directory*.
    :param directory: Created if missing.
    :param force: Whether files with different content are overwritten.
    :raises ConfigurationError: A file already exists, or the directory cannot be written.
    """
    try:
        there = [name for name in names if (directory / name).exists()]
        unchanged = [name for name in there if (directory / name).read_bytes() == (source / name).read_bytes()]
        differ = sorted(set(there) - set(unchanged))
        if differ and not force:
            raise ConfigurationError(
                f"{directory} already holds {', '.join(differ)} with different content, so no file was copied",
                next_step="Name another directory, or overwrite them with --force",
            )
        written = [name for name in names if name not in unchanged]
        for name in written:
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            (directory / name).write_bytes((source / name).read_bytes())
    except OSError as error:
        raise ConfigurationError(
            f"{directory} cannot be written: {error}", next_step="Name a directory that you may write"
        ) from error
    return CopiedFiles(directory, tuple(written), tuple(unchanged))


def examples_directory() -> Path:
    """Return the directory of the examples in this installation.

    :raises ConfigurationError: It has no examples.
    """
    for place in _PLACES:
        if (place / "flight_delays.py").is_file():
            return place
    raise ConfigurationError(
        "this installation has no example DAGs", next_step="Install the wheel of airflow-provider-ha again"
    )


@app.command()
def targets(
    context: typer.Context,
    output: Annotated[
        Path | None,
        typer.Option(help="Write the JSON to this file, for file_sd_configs of Prometheus.", metavar="FILE"),
    ] = None,
    watch: Watch = False,
    interval: Interval = INTERVAL,
    as_json: AsJson = False,
) -> None:
    """List the drivers' metrics addresses, as Prometheus reads them from a file or over HTTP. Exit 0 even if empty.

    A job serves metrics with its option metrics_port. The address of a lost driver stays in the list: it is down.
    A driver that serves them at the loopback address of another host is omitted, with a line on stderr: see
    metrics_address. Exit 2: ZooKeeper did not answer; the file of --output is left unchanged.
    """
    with cluster(context, as_json=as_json) as client:
        repeated(lambda: _targets(client, output, as_json=as_json), interval if watch else None)


def _targets(client: HaClient, output: Path | None, *, as_json: bool) -> None:
    found = [target for job_id in client.list_jobs() if (target := _target(client, job_id)) is not None]
    if output is not None:
        _replace(output, found)
    if as_json:
        console.out.out(_document(found))
        return
    console.print_table(
        ("JOB", "TARGET"),
        ([target.labels["job_id"], target.targets[0]] for target in found),
        empty="no driver of this cluster serves metrics; set metrics_port of a job",
    )


@app.command("files")
def copy_monitoring(
    directory: Annotated[Path, typer.Argument(help="Target directory; created if missing.", metavar="DIR")],
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
    as_json: AsJson = False,
) -> None:
    """Copy the Grafana dashboards, the Prometheus alert rules, and the mappings for statsd_exporter. Needs no cluster.

    Exit 64: a file already exists.
    """
    with reported(as_json=as_json):
        names = sorted(path.name for path in MONITORING.iterdir() if path.suffix in (".json", ".yaml"))
        copied = copy_files(MONITORING, names, directory.absolute(), force=force)
    if as_json:
        console.print_json(CopiedFilesView.of(copied))
        return
    print_copied(copied)


def _target(client: HaClient, job_id: str) -> MetricsTargetView | None:
    # An unreadable job must not hide the others (FLINK-5193).
    try:
        snapshot = client.job(job_id).snapshot()
    except HaError as error:
        if error.retryable:
            raise  # unknown for all jobs: the file that Prometheus reads stays unchanged
        console.err.print(f"job {job_id} is left out: {console.escaped(str(error))}")
        return None
    found = targets_of(client.config.cluster_id, snapshot)
    if found is not None and (reason := out_of_reach(snapshot, socket.gethostname())):
        console.err.print(f"job {job_id} is left out: {console.escaped(reason)}")
        return None
    return found


def _document(found: Sequence[MetricsTargetView]) -> str:
    return json.dumps([target.to_json() for target in found], indent=2)


def _replace(path: Path, found: Sequence[MetricsTargetView]) -> None:
    """Write the file atomically: Prometheus, which watches it, reads the old list or the new one."""
    try:
        descriptor, name = tempfile.mkstemp(dir=path.absolute().parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(descriptor, "w") as file:
                file.write(_document(found) + "\n")
            Path(name).chmod(0o644)  # Prometheus is another user
            Path(name).replace(path)
        except BaseException:
            with suppress(OSError):
                Path(name).unlink()
            raise
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error}", next_step="Name another file") from error
