"""``spark-ha examples``: copy the example DAGs of the package into Airflow's DAGs folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from airflow_provider_ha.api.documents.view import CopiedFilesView
from airflow_provider_ha.cli import console
from airflow_provider_ha.cli.session import AsJson, reported
from airflow_provider_ha.errors import ConfigurationError


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
