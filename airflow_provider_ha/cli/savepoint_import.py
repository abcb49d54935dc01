"""``spark-ha savepoint import``: import an archive as a directory, as a savepoint on S3, or into its job."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.checkpoints.model import Savepoint
from airflow_provider_ha.checkpoints.spark.places import is_s3
from airflow_provider_ha.checkpoints.store.savepoints import savepoint_prefix
from airflow_provider_ha.checkpoints.store.savepoints.archive import adopt, check_adoptable, described, unpack
from airflow_provider_ha.cli.savepoint_files import print_savepoint
from airflow_provider_ha.cli.savepoint_target import path_of
from airflow_provider_ha.cli.session import AsJson, cluster, reported
from airflow_provider_ha.errors import ConfigurationError, JobStateError, ObjectMissingError
from airflow_provider_ha.jobs.job_graph import Blob
from airflow_provider_ha.jobs.recovery.transactions import brief_commit, take_lock


def import_archive(
    context: typer.Context,
    archive: Annotated[Path, typer.Argument(help="Archive that `savepoint export` wrote.", metavar="FILE")],
    to: Annotated[
        str | None,
        typer.Option(
            help="Directory of the savepoint, or s3://bucket/prefix/NAME; must not exist.", metavar="DIRECTORY|URI"
        ),
    ] = None,
    job: Annotated[
        str | None,
        typer.Option(help="Instead of --to: the job that it was exported from, which must not run.", metavar="JOB"),
    ] = None,
    scratch: Annotated[
        Path | None,
        typer.Option(help="On S3 and HDFS: directory in which FILE is unpacked and removed; default: beside FILE."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Unpack an archive into a savepoint, or back into its job. It is treated as untrusted input.

    Exit 0: the savepoint is complete and verified; 1: it is refused, with the reason, and no files are left.
    """
    on_s3 = to is not None and is_s3(to)
    if scratch is not None and not on_s3 and job is None:
        with reported(as_json=as_json):
            raise ConfigurationError(
                "--scratch is for S3 and HDFS: a directory is unpacked where it is to be", next_step="Leave it out"
            )
    if to is not None and on_s3 and job is None:
        with reported(as_json=as_json):
            place = savepoint_prefix.SavepointPrefix(to)
            savepoint = savepoint_prefix.import_archive(place, archive, scratch=scratch)
        print_savepoint(str(place), savepoint, as_json=as_json)
        return
    if job is not None and to is None:
        with cluster(context, as_json=as_json) as client:
            savepoint = _into_job(client, job, archive, scratch)
            tree = client.job(job).savepoints.tree(savepoint.savepoint_id)
            location = str(tree.local_path or client.job(job).savepoints.uri(savepoint.savepoint_id))
    else:
        with reported(as_json=as_json):
            if to is None or job is not None:
                raise ConfigurationError(
                    "an archive is imported to one place", next_step="Give either --to DIRECTORY or --job JOB"
                )
            directory = path_of(to) or Path(to)
            savepoint, location = unpack(archive, directory), str(directory)
    print_savepoint(location, savepoint, as_json=as_json)


def _into_job(client: HaClient, job_id: str, archive: Path, scratch: Path | None) -> Savepoint:
    job, savepoints = client.context(job_id), client.job(job_id).savepoints
    run = job.snapshot().run
    expected = described(archive)
    check_adoptable(savepoints, job_id, expected)
    try:
        job.graph(Blob(sha256=expected.graph, size=0))
    except ObjectMissingError:
        raise JobStateError(
            f"the storage does not have the job graph that wrote savepoint {expected.savepoint_id!r}, so job "
            f"{job_id!r} could not be restored from it",
            next_step="Import it with --to, and restore it from there",
        ) from None
    number = run.run.number if run else 0
    with take_lock(job, number):
        pass  # a job with a driver is refused before the archive is unpacked
    return adopt(savepoints, job_id, brief_commit(job, number), archive, expected, scratch=scratch)
