"""``spark-ha savepoint dispose|sweep`` for savepoints on S3, and the names of their checkpoints."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

from airflow_provider_ha.api.documents.savepoints import PoolDisposalView, PoolSweepView, PoolView
from airflow_provider_ha.checkpoints.spark.places import is_s3
from airflow_provider_ha.checkpoints.store.savepoints.pool import Pool, PoolPlace, savepoint_place
from airflow_provider_ha.checkpoints.store.savepoints.pool_sweep import GRACE, SweepResult
from airflow_provider_ha.checkpoints.store.savepoints.pool_sweep import dispose as dispose_of
from airflow_provider_ha.checkpoints.store.savepoints.pool_sweep import sweep as sweep_pool
from airflow_provider_ha.cli import console
from airflow_provider_ha.cli.exit_codes import Exit
from airflow_provider_ha.cli.job_requests import who
from airflow_provider_ha.cli.session import AsJson, confirm, reported
from airflow_provider_ha.errors import ConfigurationError


GraceHours = Annotated[
    float, typer.Option(min=0, help="Minimum age in hours of objects to remove from the pool.", metavar="HOURS")
]
GRACE_HOURS = GRACE / timedelta(hours=1)


def dispose(uri: str, *, yes: bool, grace_hours: float, as_json: bool) -> None:
    """Remove a savepoint, and the objects that no other savepoint names."""
    with reported(as_json=as_json):
        place, name = savepoint_place(uri)
        if not yes:
            confirm(f"savepoint {uri} is not removed", f"Remove savepoint {uri} for good?", as_json=as_json)
        swept = dispose_of(Pool(place), name, holder=who(), grace=timedelta(hours=grace_hours))
    if as_json:
        console.print_json(PoolDisposalView(savepoint=uri, pool=PoolView.of(swept)))
        return
    console.out.print(f"savepoint {uri} is removed", markup=False)
    _print_swept(swept)


def sweep(
    place: Annotated[str, typer.Argument(help="Place of the savepoints: s3://bucket/savepoints.", metavar="URI")],
    grace_hours: GraceHours = GRACE_HOURS,
    as_json: AsJson = False,
) -> None:
    """Remove unnamed objects from a pool on S3: leftovers of interrupted or disposed savepoints.

    Exit 1: no object was removed, because another process takes, restores or sweeps there. Exit 2: a manifest is
    unreadable.
    """
    with reported(as_json=as_json):
        swept = sweep_pool(Pool(place_on_s3(place)), holder=who(), grace=timedelta(hours=grace_hours))
    if as_json:
        console.print_json(PoolSweepView(place=place, pool=PoolView.of(swept)))
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


def place_on_s3(text: str) -> PoolPlace:
    """Return the place of a URI of S3.

    :raises ConfigurationError: The text is not such a URI.
    """
    if not is_s3(text):
        raise ConfigurationError(
            f"{text!r} is not on S3",
            next_step="A savepoint on S3 needs checkpoints in the same bucket: write s3://bucket/…",
        )
    return PoolPlace.of(text)
