"""Verification of a checkpoint directory, managed or not.

Invariant: it writes nothing, follows no name out of the directory, and never turns "could not be read" into "is bad"
(contract 6).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Literal

from airflow_provider_ha.checkpoints.format.content import OF_A_JVM_OF_FORMAT_1, ContentCheck
from airflow_provider_ha.checkpoints.format.layout import (
    COMMITS,
    METADATA,
    OFFSETS,
    SOURCES,
    STATE,
    Progress,
    progress,
)
from airflow_provider_ha.checkpoints.format.metadata_log import CommitsEntry
from airflow_provider_ha.checkpoints.format.releases import Release, release
from airflow_provider_ha.checkpoints.format.state import StateReader
from airflow_provider_ha.checkpoints.trees import files
from airflow_provider_ha.checkpoints.trees.tree import Tree
from airflow_provider_ha.checkpoints.verify.batch_checks import judge_batches
from airflow_provider_ha.checkpoints.verify.codes import Code
from airflow_provider_ha.checkpoints.verify.findings import Finding
from airflow_provider_ha.checkpoints.verify.leftover_checks import check_leftovers
from airflow_provider_ha.checkpoints.verify.log_checks import check_logs
from airflow_provider_ha.checkpoints.verify.logs import read_logs
from airflow_provider_ha.checkpoints.verify.operator_checks import check_operators
from airflow_provider_ha.checkpoints.verify.prefetch import (
    Tell,
    expect_logs,
    expect_sources,
    files_of,
    look_into_state,
    stores_of,
)
from airflow_provider_ha.checkpoints.verify.process_pool import helped
from airflow_provider_ha.checkpoints.verify.removals import check_removals, removals
from airflow_provider_ha.checkpoints.verify.report import Findings, Reason, Report, SinkState
from airflow_provider_ha.checkpoints.verify.sink_checks import check_sink
from airflow_provider_ha.checkpoints.verify.source_checks import check_sources
from airflow_provider_ha.checkpoints.verify.stale_checks import check_stale
from airflow_provider_ha.checkpoints.verify.state_checks import (
    check_schemas,
    check_state,
    check_state_directory,
)
from airflow_provider_ha.checkpoints.verify.statefulness import statefulness
from airflow_provider_ha.checkpoints.verify.subject import Subject
from airflow_provider_ha.checkpoints.working.layered.base import FILE as BASE
from airflow_provider_ha.errors import CheckpointCorruptError, StorageUnavailableError


Depth = Literal["quick", "full"]
# A query that purges faster than three reads is judged by the last one.
_LOOKS = 3
_PARTS = (METADATA, OFFSETS, COMMITS, SOURCES, STATE)


@dataclass(frozen=True, slots=True)
class _Question:
    """Parameters of a verification: depth, release, sink, progress callback and number of processes."""

    depth: Depth
    release: Release
    sink: Tree | None
    tell: Tell | None
    processes: int


def verify(
    directory: Tree,
    *,
    depth: Depth = "full",
    spark_version: str | None = None,
    sink: Tree | None = None,
    tell: Tell | None = None,
    processes: int = 1,
) -> Report:
    """Report whether Spark can start from *directory*, and to which batches it could be restored.

    A running query is judged in its current state; if a file is missing and the query has progressed, it is judged
    again.

    :param directory: Any Spark checkpoint directory: a path, or the result of
        :func:`~airflow_provider_ha.checkpoints.connectors.places.directory_at` for a URI.
    :param depth: ``"quick"`` reads logs, names and sizes; ``"full"`` also reads every state file to its end.
    :param spark_version: The release that will start from it, as ``4.2.0``; the installed one by default.
    :param sink: Output directory of the query's file sink, to judge with the checkpoint.
    :param tell: Called during the state check with the number of finished stores and the total.
    :param processes: Number of processes for large state on this host. With more than one, ``multiprocessing`` spawns
        them: each imports the main module of the program again, which must allow that.
    :raises ConfigurationError: *spark_version* is not a version.
    """
    asked = _Question(depth, release(spark_version), sink, tell, processes)
    return settled(lambda: _look(directory, asked), lambda report: _went_on(directory, report))


def settled(look: Callable[[], Report], went_on: Callable[[Report], bool]) -> Report:
    """Judge again while a file is missing under a running query: the query may have purged it.

    :param look: Judges the checkpoint.
    :param went_on: Whether the query planned or committed a batch since the previous judgement.
    """
    for _ in range(_LOOKS - 1):
        report = look()
        if report.startable is not False or not went_on(report):
            return report
    return look()


def _look(directory: Tree, asked: _Question) -> Report:
    findings = Findings()
    try:
        return _judge(directory.fresh(), asked, findings)
    except StorageUnavailableError as error:
        _add_unreadable(error, findings)
        return Report(startable=None, restorable=[], findings=findings.all())
    except CheckpointCorruptError as error:
        if error.path != BASE:
            raise  # other damage is judged where it is read
        findings.add(
            Finding(Code.BASE_CORRUPT, BASE, None, error.reason, "a complete base of this release", blocks=True)
        )
        return Report(startable=False, restorable=[], findings=findings.all())


def _went_on(directory: Tree, report: Report) -> bool:
    try:
        return progress(directory) != Progress(report.planned, report.committed)
    except (StorageUnavailableError, CheckpointCorruptError):
        return False


def _judge(directory: Tree, asked: _Question, findings: Findings) -> Report:
    if not directory.is_directory():
        what, next_step = directory.absence()
        raise StorageUnavailableError(f"{directory} {what}", next_step=next_step)
    found = [name for name in files.names(directory) if not name.startswith(".")]
    if found and not set(found) & set(_PARTS):
        holds = f"it has {found[0]}, but no file of a Spark checkpoint"
        findings.add(Finding(Code.NOT_A_CHECKPOINT, ".", None, holds, f"one of {', '.join(_PARTS)}", blocks=None))
        return Report(startable=None, restorable=[], findings=findings.all())
    expect_logs(directory)
    logs = read_logs(directory)
    expect_sources(directory, logs)
    content = ContentCheck(directory, asked.release) if asked.depth == "full" else None
    subject = Subject(
        directory=directory,
        release=asked.release,
        reader=StateReader(directory, content),
        logs=logs,
        kind=statefulness(directory, logs),
    )
    _look_into_state(subject, content, asked)
    removed = removals(subject)
    _check_start(subject, removed, findings)
    batches = judge_batches(subject, removed)
    for path, reason in sorted((content.not_looked_into if content else {}).items()):
        blocks = None if reason == OF_A_JVM_OF_FORMAT_1 else False
        findings.add(Finding(Code.NOT_LOOKED_INTO, path, None, reason, blocks=blocks))
    sink_state, known = _check_sink(asked.sink, subject, findings)
    return Report(
        startable=False if findings.blocked else None if findings.open or not known else True,
        restorable=[verdict.batch for verdict in batches if verdict.restorable],
        findings=findings.all(),
        planned=logs.progress.planned,
        committed=logs.progress.committed,
        batches=batches,
        sink=sink_state,
    )


def _look_into_state(subject: Subject, content: ContentCheck | None, asked: _Question) -> None:
    stores = stores_of(subject.logs, subject.reader)
    with ExitStack() as held:
        if content is not None and subject.directory.local_path is not None and asked.processes > 1:
            held.enter_context(helped(content, subject.directory, asked.release, files_of(stores), asked.processes))
        look_into_state(subject.directory, stores, subject.reader, asked.tell)


def _check_start(subject: Subject, removed: list[Reason], findings: Findings) -> None:
    """Report problems that prevent the next start of Spark or that it would not notice."""
    logs, directory = subject.logs, subject.directory
    check_logs(subject, findings)
    check_leftovers(subject, findings)
    if logs.progress.planned < 0:
        return
    last, base = logs.offsets.get(logs.progress.planned), logs.next_base
    if last is not None:
        check_sources(directory, last, findings, subject.looked_into)
    check_state_directory(directory, logs, subject.kind, findings)
    check_schemas(directory, findings)
    check_operators(subject, findings)
    check_removals(subject, removed, findings)
    check_stale(subject, findings)
    offsets, commits = logs.offsets.get(base), logs.commits.get(base)
    if base >= 0 and offsets is not None:
        # More than one batch without a commit: format 1 finds its state by number alone.
        written = commits or CommitsEntry(base, 1, {}, {})
        check_state(subject.reader, offsets, written, subject.release, findings)


def _check_sink(sink: Tree | None, subject: Subject, findings: Findings) -> tuple[SinkState | None, bool]:
    """Return the state of the sink, and whether all of it could be read."""
    if sink is None:
        return None, True
    place = sink.absolute().fresh()
    try:
        return check_sink(place, subject, findings), True
    except StorageUnavailableError as error:
        _add_unreadable(error, findings, place=place)
        return None, False


def _add_unreadable(error: StorageUnavailableError, findings: Findings, *, place: Tree | None = None) -> None:
    path = getattr(error, "path", ".")
    shown = path if place is None else str(place / path)
    findings.add(Finding(Code.UNREADABLE, shown, None, error.message, "a file that can be read", blocks=None))
