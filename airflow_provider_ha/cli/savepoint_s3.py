"""``spark-ha savepoint create|import|verify|export|restore|dispose|sweep`` for savepoints on S3."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from airflow_provider_ha.checkpoints.connectors.places import is_s3
from airflow_provider_ha.checkpoints.savepoints.archive import export as exporting
from airflow_provider_ha.checkpoints.savepoints.pool.import_archive import bring
from airflow_provider_ha.checkpoints.savepoints.pool.judge import judge_query, missing
from airflow_provider_ha.checkpoints.savepoints.pool.pool import Place, Pool, savepoint_place
from airflow_provider_ha.checkpoints.savepoints.pool.records import PooledSavepoint
from airflow_provider_ha.checkpoints.savepoints.pool.restore import fetch
from airflow_provider_ha.checkpoints.savepoints.pool.restore import restore as restore_prefix
from airflow_provider_ha.checkpoints.savepoints.pool.sweep import GRACE, SweepResult
from airflow_provider_ha.checkpoints.savepoints.pool.sweep import dispose as dispose_of
from airflow_provider_ha.checkpoints.savepoints.pool.sweep import sweep as sweep_pool
from airflow_provider_ha.checkpoints.savepoints.pool.take import PooledSource, take
from airflow_provider_ha.checkpoints.verify.verify import Depth
from airflow_provider_ha.cli import console
from airflow_provider_ha.cli.outcome import Exit
from airflow_provider_ha.cli.requests import who
from airflow_provider_ha.cli.savepoint_target import assigned, by_query, number
from airflow_provider_ha.cli.session import AsJson, reported
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.names import safe_segment
from airflow_provider_ha.views.new_savepoint import PooledDisposedView, PooledSavepointView, PoolView, SweptView
from airflow_provider_ha.views.savepoints import ExportedView, RestoredView


GraceHours = Annotated[
    float, typer.Option(min=0, help="Age in hours below which nothing is removed from the pool.", metavar="HOURS")
]
GRACE_HOURS = GRACE / timedelta(hours=1)


def create(
    to: str,
    sources: Sequence[PooledSource],
    *,
    label: str,
    spark_version: str | None,
    as_json: bool,
) -> None:
    """Take a savepoint, and print what it is."""
    with reported(as_json=as_json):
        place, name = savepoint_place(to)
        pool = Pool(place)
        savepoint = take(pool, name, sources, holder=who(), label=label, spark_version=spark_version)
    _print_savepoint(pool.uri(name), savepoint, as_json=as_json)


def import_archive(archive: Path, to: str, *, scratch: Path | None, as_json: bool) -> None:
    """Make a savepoint of an archive, and print what it is."""
    with reported(as_json=as_json):
        place, name = savepoint_place(to)
        pool = Pool(place)
        savepoint = bring(pool, name, archive, holder=who(), scratch=scratch)
    _print_savepoint(pool.uri(name), savepoint, as_json=as_json)


def _print_savepoint(uri: str, savepoint: PooledSavepoint, *, as_json: bool) -> None:
    fields = {
        "savepoint_id": savepoint.savepoint_id,
        "directory": uri,
        "cut": {query: part.batch for query, part in savepoint.queries.items()},
        "files": len(savepoint.files),
        "bytes": savepoint.size,
        "digested": savepoint.digested,
    }
    if as_json:
        console.print_json(PooledSavepointView.model_validate(fields))
    else:
        console.print_fields(
            {key: console.cut_text(value) if isinstance(value, dict) else value for key, value in fields.items()}
        )


def pooled_sources(path: str | None, queries: list[str], batches: list[str], sinks: list[str]) -> list[PooledSource]:
    """Return what is to be saved, from the words of the command line.

    :raises ConfigurationError: They cannot be understood, or name something that is not on S3.
    """
    places = assigned(queries, "--query")
    if path is not None:
        name = safe_segment(Place.of(_on_s3(path)).prefix.rstrip("/").rpartition("/")[2])
        if name in places:
            raise ConfigurationError(f"query {name!r} is named twice", next_step="Name it with --query only")
        places = {name: path, **places}
    numbers, outputs = by_query(batches, "--batch", places), by_query(sinks, "--sink", places)
    return [
        PooledSource(
            query=query,
            place=Place.of(_on_s3(place)),
            batch=number(numbers[query]) if query in numbers else None,
            sink=Place.of(_on_s3(outputs[query])) if query in outputs else None,
        )
        for query, place in places.items()
    ]


def verify(uri: str, *, depth: Depth, spark_version: str | None, as_json: bool) -> NoReturn:
    """Judge a savepoint, print the answer, and end with its exit code."""
    with reported(as_json=as_json):
        pool, savepoint = _found(uri)
        present = pool.present()
        wrong = missing(savepoint, present)
        judged = {
            query: judge_query(
                pool.tree_of(savepoint, query, present), part.batch, depth, spark_version or savepoint.spark_version
            )
            for query, part in savepoint.queries.items()
        }
    answers = [answer for answer, _ in judged.values()]
    restorable = False if wrong or False in answers else None if None in answers else True
    if as_json:
        console.print_json(
            {
                "savepoint_id": savepoint.savepoint_id,
                "restorable": restorable,
                "digested": savepoint.digested,
                "files": [{"path": problem.path, "message": problem.reason} for problem in wrong],
                "queries": {
                    query: {
                        "batch": savepoint.queries[query].batch,
                        "restorable": answer,
                        "report": report.to_json(),
                    }
                    for query, (answer, report) in judged.items()
                },
            }
        )
    else:
        sentence = {True: "is whole and can be restored", False: "cannot be restored", None: "could not be judged"}
        console.out.print(f"savepoint {uri} {sentence[restorable]}", style="bold", markup=False)
        rows = [["FILE", "", problem.path, problem.reason] for problem in wrong]
        for query, (_, report) in judged.items():
            rows += [[f.code.value, str(f.batch), f"{query}/{f.path}", f.message] for f in report.findings]
        console.print_table(("FINDING", "BATCH", "FILE", "MESSAGE"), rows, empty="nothing was found wrong")
    raise typer.Exit({True: Exit.YES, False: Exit.NO, None: Exit.UNKNOWN}[restorable])


def export(uri: str, to: Path, *, as_json: bool) -> None:
    """Pack a savepoint into an archive of this host, by way of a directory beside it."""
    with reported(as_json=as_json):
        pool, savepoint = _found(uri)
        with tempfile.TemporaryDirectory(prefix=f".{to.name}.", dir=to.parent) as folder:
            directory = Path(folder) / "savepoint"
            own = fetch(pool, savepoint, directory, holder=who(), move=False)
            size = exporting.export(directory, own, to)
    if as_json:
        console.print_json(ExportedView(savepoint_id=savepoint.savepoint_id, archive=str(to), bytes=size))
    else:
        console.out.print(f"savepoint {savepoint.savepoint_id} is in {to}, {size} bytes", markup=False)


def restore(uri: str, to: str, *, spark_version: str | None, as_json: bool) -> None:
    """Make checkpoint locations out of a savepoint, and print where they are."""
    with reported(as_json=as_json):
        pool, savepoint = _found(uri)
        if is_s3(to):
            restore_prefix(pool, savepoint, Place.of(to), holder=who(), spark_version=spark_version)
        else:
            fetch(pool, savepoint, Path(to), holder=who(), move=True)
    root = str(Place.of(to)).replace("s3://", "s3a://", 1) if is_s3(to) else to
    places = {query: f"{root}/{query}" for query in savepoint.queries}
    if as_json:
        console.print_json(RestoredView(savepoint_id=savepoint.savepoint_id, checkpoints=places))
        return
    console.print_table(
        ("QUERY", "BATCH", "CHECKPOINT LOCATION"),
        ([query, savepoint.queries[query].batch, place] for query, place in places.items()),
        empty="the savepoint holds no query",
    )


def dispose(uri: str, *, yes: bool, grace_hours: float, as_json: bool) -> None:
    """Remove a savepoint, and the objects that no other savepoint names."""
    with reported(as_json=as_json):
        place, name = savepoint_place(uri)
        if not yes:
            typer.confirm(f"Remove savepoint {uri} for good?", abort=True)
        swept = dispose_of(Pool(place), name, holder=who(), grace=timedelta(hours=grace_hours))
    if as_json:
        console.print_json(PooledDisposedView(savepoint=uri, pool=PoolView.of(swept)))
        return
    console.out.print(f"savepoint {uri} is removed", markup=False)
    _print_swept(swept)


def sweep(
    place: Annotated[str, typer.Argument(help="Where savepoints lie: s3://bucket/savepoints.", metavar="URI")],
    grace_hours: GraceHours = GRACE_HOURS,
    as_json: AsJson = False,
) -> None:
    """Remove from a pool on S3 the objects that no savepoint names: leftovers of interrupted or disposed savepoints.

    Exit 1: nothing was done, because another process takes, restores or sweeps there. Exit 2: a manifest is unreadable.
    """
    with reported(as_json=as_json):
        swept = sweep_pool(Pool(Place.of(_on_s3(place))), holder=who(), grace=timedelta(hours=grace_hours))
    if as_json:
        console.print_json(SweptView(place=place, pool=PoolView.of(swept)))
    else:
        _print_swept(swept)
    if swept.in_use_by:
        raise typer.Exit(Exit.NO)


def _print_swept(swept: SweepResult) -> None:
    if swept.in_use_by:
        users = ", ".join(swept.in_use_by)
        console.out.print(f"the pool was not swept: it is in use by {users}; sweep it later", markup=False)
    else:
        counted = f"{swept.kept} kept, {swept.young} unnamed and too young"
        console.out.print(f"pool: {swept.removed} files of {swept.size} bytes removed, {counted}")


def _found(uri: str) -> tuple[Pool, PooledSavepoint]:
    place, name = savepoint_place(uri)
    pool = Pool(place)
    return pool, pool.read(name)


def _on_s3(text: str) -> str:
    if not is_s3(text):
        raise ConfigurationError(
            f"{text!r} is not on S3", next_step="A savepoint on S3 is of checkpoints in its bucket: write s3://bucket/…"
        )
    return text
