"""``spark-ha archive``: class archives of this host, which shorten the start of a driver."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from airflow_provider_ha.api.documents.stores import ArchiveListView, ArchivesRemovedView, ArchiveView
from airflow_provider_ha.cli import console
from airflow_provider_ha.cli.session import AsJson, ClusterTarget, help_examples, reported
from airflow_provider_ha.errors import ConfigurationError, HaError
from airflow_provider_ha.host.archives.archive_store import ArchiveStore, StoredArchive
from airflow_provider_ha.host.archives.driver_launch import driver_launch
from airflow_provider_ha.jobs.drivers.spark_release import find_spark_home


app = typer.Typer(help="Make, list and remove class archives of this host.", no_args_is_help=True)


@app.command(
    epilog=help_examples("spark-ha archive make --spark-home /opt/spark"),
)
def make(
    context: typer.Context,
    spark_home: Annotated[
        Path | None,
        typer.Option(help="Spark of the drivers. Default: SPARK_HOME, else the installed pyspark.", metavar="DIR"),
    ] = None,
    conf: Annotated[
        list[str] | None,
        typer.Option(
            help="Conf of the jobs that changes the JVM: spark.driver.memory, spark.driver.extraClassPath. Repeatable.",
            metavar="KEY=VALUE",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make the class archive that drivers of this host map, in a minute, and connect to nothing.

    The first driver of a host makes it otherwise, beside its job. Build an image with this command, as the user of the
    drivers and with their variables: drivers also use an archive that they cannot write.

    Exit 0: the archive exists; 64: this JVM can use none, or the training failed; 2: another process makes it now.
    """
    with reported(as_json=as_json):
        store = _store(context)
        home = find_spark_home(spark_home or _named_home())
        with tempfile.TemporaryDirectory(prefix="spark-ha-archive-") as folder:
            properties = Path(folder, "properties")
            properties.write_text("".join(f"{line}\n" for line in map(_line, conf or ())), encoding="utf-8")
            submit = str(home / "bin" / "spark-submit")
            call = [submit, "--load-spark-defaults", "--properties-file", str(properties), "script.py"]
            launch = driver_launch(call, {**os.environ, "SPARK_HOME": str(home)}, store, enabled=True)
        if launch.training is not None:
            with console.phases(quiet=as_json) as say:
                say("loading the classes of Spark, and writing the archive", 0)
                launch.training.run(store, os.environ)
        key = launch.archive if launch.training is None else launch.training.key
        if key is None:
            raise ConfigurationError(f"drivers use no class archive: {launch.reason}")
        found = store.find(key)
        if found is None:
            raise HaError("another process of this host makes the class archive now", next_step="Repeat it in a minute")
    console.show(_view(found), as_json=as_json)


@app.command("list")
def list_archives(context: typer.Context, as_json: AsJson = False) -> None:
    """List the class archives of this host, with their last use."""
    with reported(as_json=as_json):
        store = _store(context)
        view = ArchiveListView(directory=str(store.directory), archives=tuple(map(_view, store.archives())))
    if as_json:
        console.print_json(view)
        return
    rows = [[each.key, each.spark, each.java, each.bytes, each.made_at, each.used_at] for each in view.archives]
    columns = ["KEY", "SPARK", "JAVA", "BYTES", "MADE", "USED"]
    console.print_table(columns, rows, empty=f"There is no class archive in {view.directory}.")


@app.command()
def remove(
    context: typer.Context,
    keys: Annotated[
        list[str] | None, typer.Argument(help="Keys of archives; by default all.", metavar="[KEY]...")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Remove class archives of this host, and the notes about failed ones, so that drivers make them again.

    A running driver keeps the archive that it has mapped.
    """
    with reported(as_json=as_json):
        store = _store(context)
        known = store.keys()
        unknown = [key for key in keys or () if key not in known]
        if unknown:
            raise ConfigurationError(
                f"there is no class archive {unknown[0]!r} in {store.directory}", next_step="See spark-ha archive list"
            )
        removed = tuple(keys or known)
        for key in removed:
            store.remove(key)
    console.show(ArchivesRemovedView(directory=str(store.directory), removed=removed), as_json=as_json)


def _store(context: typer.Context) -> ArchiveStore:
    target: ClusterTarget = context.ensure_object(ClusterTarget)
    return ArchiveStore.of(target.config())


def _named_home() -> Path | None:
    named = os.environ.get("SPARK_HOME")
    return Path(named) if named else None


def _line(word: str) -> str:
    key, separator, value = word.partition("=")
    if not separator or not key.startswith("spark.") or "\n" in word:
        raise ConfigurationError(f"--conf {word!r} is not of the form spark.key=value")
    return f"{key} {value}"


def _view(found: StoredArchive) -> ArchiveView:
    note = found.note
    return ArchiveView(
        key=note.key,
        path=str(found.path),
        bytes=note.length,
        spark=note.spark,
        java=note.java,
        seconds=note.seconds,
        made_at=note.made_at,
        used_at=found.used_at,
    )
