"""Savepoints as directories, archives and prefixes of S3, without a cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from airflow_provider_ha.api.documents.checkpoints import NewSavepointView, SavepointExportView, SavepointRestoreView
from airflow_provider_ha.api.documents.verification import savepoint_verification
from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.checkpoints.model import Savepoint
from airflow_provider_ha.checkpoints.spark.places import StorageAccess, is_local, is_s3, output_place, s3_uri
from airflow_provider_ha.checkpoints.store.savepoints import archive as exporting
from airflow_provider_ha.checkpoints.store.savepoints import savepoint_prefix
from airflow_provider_ha.checkpoints.store.savepoints import savepoint_restore as restoring
from airflow_provider_ha.checkpoints.store.savepoints.archive import described, unpack
from airflow_provider_ha.checkpoints.store.savepoints.creation import take
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_directory import DirectoryLayout
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_layout import At, SavepointSource
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_lookup import adopt, check_adoptable
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_prefix import PrefixLayout, SavepointPrefix
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_report import SavepointReport, judge
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_restore import restore_files
from airflow_provider_ha.cli import console
from airflow_provider_ha.cli.exit_codes import Exit
from airflow_provider_ha.cli.savepoint_target import (
    SavepointOf,
    SavepointTarget,
    by_query,
    located,
    number,
    path_of,
    places_of,
)
from airflow_provider_ha.cli.session import AsJson, cluster, reported
from airflow_provider_ha.cli.session import ClusterTarget as Cluster
from airflow_provider_ha.cli.verify import CORES, Processes, VerificationDepth
from airflow_provider_ha.errors import ConfigurationError, JobStateError, ObjectMissingError
from airflow_provider_ha.jobs.job_graph import Blob
from airflow_provider_ha.jobs.recovery.transactions import brief_commit, take_lock
from airflow_provider_ha.query_names import is_query_directory, own_name, query_directory


SparkVersion = Annotated[str | None, typer.Option(help="Spark release that starts from it, X.Y.Z.", metavar="X.Y.Z")]


def create(
    to: Annotated[
        str,
        typer.Option(
            help="Directory of the savepoint, or s3://bucket/prefix/NAME; must not exist.", metavar="DIRECTORY|URI"
        ),
    ],
    path: Annotated[
        str | None,
        typer.Argument(
            help="Checkpoint directory of one query, its name is the query's. Write ./NAME for a relative path: a word "
            "without a slash is a job id, and the savepoint of a managed job is taken with `savepoint trigger`.",
            metavar="[PATH]",
        ),
    ] = None,
    query: Annotated[
        list[str] | None,
        typer.Option(
            help="A query and its checkpoint directory; repeatable. One cut covers all of them, in this order: name a "
            "query before the queries whose output it reads (downstream first).",
            metavar="NAME=PATH",
        ),
    ] = None,
    batch: Annotated[
        list[str] | None,
        typer.Option(help="Batch to save; by default the newest committed one.", metavar="[NAME=]N"),
    ] = None,
    sink: Annotated[
        list[str] | None,
        typer.Option(help="Output directory of a file sink: its log is also saved.", metavar="[NAME=]PATH"),
    ] = None,
    link: Annotated[
        bool,
        typer.Option(
            "--link",
            help="Create hard links instead of copies: quick and small, but damage in place affects both.",
        ),
    ] = False,
    no_digests: Annotated[
        bool,
        typer.Option(
            "--no-digests",
            help="With --link: read no content, and compare only sizes later. Without it, content that an earlier "
            "savepoint in the same directory has read is not read again.",
        ),
    ] = False,
    label: Annotated[str, typer.Option(help="A word for people, for example the ticket.")] = "",
    spark_version: SparkVersion = None,
    as_json: AsJson = False,
) -> None:
    """Take a savepoint of any Spark checkpoint directories while their queries run. Needs no cluster.

    The directory appears when everything is copied, verified and described by a manifest, or not at all. If Spark
    purges
    a batch during the copy, a newer one is taken. Exit 0: it is complete; 1: it cannot be taken.
    """
    words = (path, query or [], batch or [], sink or [])
    with reported(as_json=as_json):
        if is_s3(to):
            if link or no_digests:
                raise ConfigurationError(
                    "on S3 there are no links, and digests are the store's own",
                    next_step="Leave --link and --no-digests out: the server copies",
                )
            prefix = PrefixLayout(SavepointPrefix(to))
            uris = _sources(words, _uri, lambda uri: uri.rpartition("/")[2])
            savepoint = take(uris, prefix, label=label, spark_version=spark_version)
            location = str(prefix.at)
        else:
            directory = DirectoryLayout(Path(to), link=link, digests=not no_digests)
            if path is not None:
                _not_a_job(path)
            paths = _sources(words, _place, lambda path: path.resolve().name)
            savepoint = take(paths, directory, label=label, spark_version=spark_version)
            location = str(directory.target)
    print_savepoint(location, savepoint, as_json=as_json)


def verify(
    context: typer.Context,
    target: SavepointTarget,
    savepoint_id: SavepointOf = None,
    depth: Annotated[
        VerificationDepth, typer.Option(help="How closely to judge the checkpoints; every byte is compared either way.")
    ] = VerificationDepth.FULL,
    spark_version: SparkVersion = None,
    processes: Processes = CORES,
    as_json: AsJson = False,
) -> None:
    """Read every byte of a savepoint again, and report whether each query can be restored from it.

    Exit 0: all files match the manifest, and can be restored; 1: not so; 2: it could not be read.
    """
    with located(context, target, savepoint_id, as_json=as_json) as stored:
        report = judge(stored, depth=depth.value, spark_version=spark_version, processes=processes)
    console.show(savepoint_verification(report), lambda: _print_report(report), as_json=as_json)
    raise typer.Exit({True: Exit.YES, False: Exit.NO, None: Exit.UNKNOWN}[report.restorable])


def export(
    context: typer.Context,
    target: SavepointTarget,
    to: Annotated[
        Path, typer.Option(help="Archive to write: .tar, .tar.gz or .tar.zst; must not exist.", metavar="FILE")
    ],
    savepoint_id: SavepointOf = None,
    as_json: AsJson = False,
) -> None:
    """Pack a savepoint into one file. Every byte is compared with the manifest during the copy."""
    with (
        located(context, target, savepoint_id, as_json=as_json) as stored,
        stored.at_hand(to) as (directory, savepoint),
    ):
        size = exporting.export(directory, savepoint, to)
    if as_json:
        console.print_json(SavepointExportView(savepoint_id=savepoint.savepoint_id, archive=str(to), bytes=size))
    else:
        console.out.print(f"savepoint {savepoint.savepoint_id} is in {to}, {size} bytes", markup=False)


def restore(
    context: typer.Context,
    target: SavepointTarget,
    to: Annotated[
        str,
        typer.Option(
            help="Directory for the checkpoints, one per query; must not exist. Or s3://bucket/prefix or "
            "hdfs://namenode:8020/path with nothing below it.",
            metavar="DIRECTORY|URI",
        ),
    ],
    savepoint_id: SavepointOf = None,
    spark_version: SparkVersion = None,
    as_json: AsJson = False,
) -> None:
    """Make plain checkpoints from a savepoint, for queries that you start yourself: Spark needs no other files.

    The savepoint stays unchanged. Do not let the old query keep running: both would have one query id and one output.
    To
    restore a managed job, use its own operator, which takes the state of its sinks into account.
    """
    with located(context, target, savepoint_id, as_json=as_json) as stored:
        savepoint = stored.savepoint
        if is_local(to):
            restoring.restore(stored, _place(to), spark_version=spark_version)
            root = str(_place(to))
        else:
            files = _reach(context, target).files(output_place(to))
            root = restore_files(stored, files, spark_version=spark_version)
    places = {query: f"{root}/{query}" for query in savepoint.queries}
    if as_json:
        console.print_json(SavepointRestoreView(savepoint_id=savepoint.savepoint_id, checkpoints=places))
        return
    console.print_table(
        ("QUERY", "BATCH", "CHECKPOINT LOCATION"),
        ([query, savepoint.queries[query].batch, place] for query, place in places.items()),
        empty="the savepoint holds no query",
    )


def _reach(context: typer.Context, target: str) -> StorageAccess:
    """Return the access to file systems: from a job's cluster, or from the environment for other savepoints."""
    if is_s3(target) or path_of(target) is not None:
        return StorageAccess()
    named: Cluster = context.obj
    return StorageAccess.of(named.config())


def _sources(
    words: tuple[str | None, list[str], list[str], list[str]],
    place: Callable[[str], At],
    name: Callable[[At], str],
) -> list[SavepointSource[At]]:
    """Return the checkpoints to save.

    :param words: The checkpoint without a name, and the words of ``--query``, ``--batch`` and ``--sink``.
    :param place: Converts a word to a place.
    :param name: Query of a checkpoint without a name.
    :raises ConfigurationError: The words cannot be understood.
    """
    path, queries, batches, sinks = words
    places = {query: place(value) for query, value in places_of(queries, "--query").items()}
    if path is not None:
        last = name(place(path))
        query = own_name(last) if is_query_directory(last) else last
        if query in places:
            raise ConfigurationError(f"query {query!r} is named twice", next_step="Name it with --query only")
        places = {query: place(path), **places}
    if len({query_directory(query).casefold() for query in places}) < len(places):
        raise ConfigurationError(
            "two queries have names that differ in upper and lower case only, and a directory is named after each",
            next_step="Save them one by one",
        )
    numbers, outputs = by_query(batches, "--batch", places), by_query(sinks, "--sink", places)
    return [
        SavepointSource(
            query=query_directory(query),
            directory=directory,
            batch=number(numbers[query]) if query in numbers else None,
            sink=place(outputs[query]) if query in outputs else None,
        )
        for query, directory in places.items()
    ]


def _uri(text: str) -> str:
    """Return a checkpoint or an output on S3.

    :raises ConfigurationError: The text is no such URI.
    """
    if not is_s3(text):
        raise ConfigurationError(
            f"{text!r} is not on S3",
            next_step="A savepoint on S3 needs checkpoints in the same bucket: write s3://bucket/…",
        )
    return s3_uri(text)


def _place(text: str) -> Path:
    """Return a word that can only be a path, with or without a slash."""
    return path_of(text) or Path(text)


def _not_a_job(text: str) -> None:
    """Refuse the id of a job in place of a checkpoint.

    :raises ConfigurationError: It is one.
    """
    if path_of(text) is None:
        raise ConfigurationError(
            f"{text!r} is a job id, because it has no slash",
            next_step=f"Write ./{text} for a directory; for a managed job use `spark-ha savepoint trigger {text}`",
        )


def print_savepoint(location: str, savepoint: Savepoint, *, as_json: bool) -> None:
    """Print a new savepoint with its location."""
    fields = {
        "savepoint_id": savepoint.savepoint_id,
        "directory": location,
        "cut": savepoint.cut,
        "files": len(savepoint.files),
        "bytes": savepoint.size,
        "shares_inodes": savepoint.shares_inodes,
        "digested": savepoint.digested,
    }
    if as_json:
        console.print_json(NewSavepointView.model_validate(fields))
    else:
        shown = fields | {"cut": console.cut_text(savepoint.cut)}
        console.print_fields({key.replace("_", " "): value for key, value in shown.items()})


def _print_report(report: SavepointReport) -> None:
    location, files = report.stored.location, report.stored.savepoint.files
    sentence = {
        True: f"savepoint {location} is whole and can be restored",
        False: f"savepoint {location} cannot be restored",
        None: f"savepoint {location} could not be judged",
    }[report.restorable]
    console.out.print(sentence, style="bold", markup=False)
    if report.not_digested:
        console.out.print(
            f"{report.not_digested} of its {len(files)} files were created without a digest: their sizes were "
            "compared, "
            "and their bytes only as far as their format shows damage"
        )
    damaged = [["FILE", "", problem.path, problem.reason] for problem in report.files]
    found = [
        [finding.code.value, finding.batch, f"{query}/{finding.path}", finding.message]
        for query, part in report.queries.items()
        for finding in part.report.findings
    ]
    console.print_table(("FINDING", "BATCH", "FILE", "MESSAGE"), [*damaged, *found], empty="no problem was found")


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
        typer.Option(help="On S3 and HDFS: directory in which FILE is unpacked and removed; default: that of FILE."),
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
