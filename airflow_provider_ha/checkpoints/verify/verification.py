"""Verification of a checkpoint directory, managed or not: prefetch, checks, and the verdict on each batch.

Invariant: it writes nothing, follows no name out of the directory, and never turns "could not be read" into "is bad"
(contract 6).

Invariant: only the files that a fork copies for a batch decide its verdict. Damage elsewhere never condemns it, and a
Spark start that works around a bad file proves nothing about a fork.

Invariant: only files that a batch needs are read, and no decision is made here. The judgement of a batch meets a bad
file again without reading it again. Each store belongs to one thread, with its files and zips.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import chain
from typing import Literal

from airflow_provider_ha.checkpoints.areas.layered.base_file import FILE as BASE
from airflow_provider_ha.checkpoints.spark import files
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import (
    COMMITS,
    METADATA,
    OFFSETS,
    SOURCES,
    STATE,
    Progress,
    batches,
    progress,
)
from airflow_provider_ha.checkpoints.spark.closure import NeededVersion, StateReader, source_files
from airflow_provider_ha.checkpoints.spark.metadata_log import CommitsEntry
from airflow_provider_ha.checkpoints.spark.releases import Release, release
from airflow_provider_ha.checkpoints.spark.state_content import OF_A_JVM_OF_FORMAT_1, ContentCheck, helped
from airflow_provider_ha.checkpoints.spark.state_store import StateFile
from airflow_provider_ha.checkpoints.spark.tree import Tree
from airflow_provider_ha.checkpoints.verify.codes import Code
from airflow_provider_ha.checkpoints.verify.file_log_checks import check_sink, check_sources, source_lacks
from airflow_provider_ha.checkpoints.verify.log_checks import (
    check_leftovers,
    check_logs,
    check_stale,
    conf_lacks,
    sources_lack,
)
from airflow_provider_ha.checkpoints.verify.state_checks import (
    check_operators,
    check_removals,
    check_schemas,
    check_state,
    check_state_directory,
    naming_operators,
    operators_lack,
    removals,
    state_directory_lacks,
    state_lacks,
)
from airflow_provider_ha.checkpoints.verify.subject import (
    CheckpointLogs,
    Tracking,
    VerificationSubject,
    previous,
    read_logs,
    statefulness,
    tracking,
)
from airflow_provider_ha.checkpoints.verify.verification_report import (
    BatchVerdict,
    Finding,
    Findings,
    Reason,
    SinkLogState,
    VerificationReport,
)
from airflow_provider_ha.errors import CheckpointCorruptError, StorageUnavailableError


def judge_batches(subject: VerificationSubject, removed: list[Reason]) -> tuple[BatchVerdict, ...]:
    """Return the verdict on every batch with an entry in the offset log or the commit log.

    :param removed: State that was removed as a whole, as far as file times show.
    :raises StorageUnavailableError: A file that a batch needs could not be read.
    """
    naming = naming_operators(subject)

    def _all_lacks(batch: int) -> Iterator[Reason]:
        yield from _lacks(subject, batch, naming)
        yield from _open(subject, batch, removed)

    return tuple(BatchVerdict(batch, tuple(_all_lacks(batch))) for batch in subject.logs.batches)


def _open(subject: VerificationSubject, batch: int, removed: list[Reason]) -> list[Reason]:
    """Return the state of *batch* that may have been removed, unless its commit names it."""
    commits = subject.logs.commits.get(batch)
    return [] if commits is not None and commits.state_ids else removed


def _lacks(subject: VerificationSubject, batch: int, naming: list[int]) -> Iterator[Reason]:
    logs = subject.logs
    if logs.query_id:
        yield logs.query_id
    yield from logs.commit_log.lacks(batch)
    yield from logs.offset_log.lacks(batch)
    before = previous(logs, batch, subject.kind)
    if before is not None:
        # Although it is committed: Spark refuses to start without it.
        yield from logs.offset_log.lacks(before)
        yield from sources_lack(logs, batch, before)
    if before != batch - 1 and tracking(logs, batch, subject.kind) is Tracking.UNKNOWN:
        yield Reason(Code.OFFSETS_SPARSE, f"{OFFSETS}/{batch - 1}", "it is not there: left out, or lost")
    offsets, commits = logs.offsets.get(batch), logs.commits.get(batch)
    if offsets is not None:
        yield from conf_lacks(subject, offsets)
        yield from source_lacks(subject.directory, offsets, subject.looked_into)
        if commits is not None:
            yield from state_lacks(subject.reader, offsets, commits)
    yield from operators_lack(subject, naming, batch)
    if commits is not None and not commits.state_ids:
        yield from state_directory_lacks(subject.directory, subject.kind)


# Called after each partition or store with the number of finished ones and the total.
Tell = Callable[[int, int], None]


def expect_logs(directory: Tree) -> None:
    """Announce a read of all log entries, where a batched read helps."""
    if directory.at_once == 1:
        return
    entries = (f"{log}/{batch}" for log in (OFFSETS, COMMITS) for batch in batches(directory, log))
    directory.expect([METADATA, *entries])


def expect_sources(directory: Tree, logs: CheckpointLogs) -> None:
    """Announce a read of the source log entries that any batch needs, where a batched read helps."""
    if directory.at_once == 1:
        return
    needed: list[str] = []
    for entry in logs.offsets.values():
        with suppress(CheckpointCorruptError):
            needed += source_files(directory, entry)
    directory.expect(needed)


def stores_of(logs: CheckpointLogs, reader: StateReader) -> Mapping[str, list[NeededVersion]]:
    """Return the state files that the batches need, newest first, by store."""
    stores: dict[str, list[NeededVersion]] = {}
    for batch in sorted(logs.offsets.keys() & logs.commits.keys(), reverse=True):
        with suppress(CheckpointCorruptError):
            for need in reader.stores_needed(logs.offsets[batch], logs.commits[batch]):
                stores.setdefault(need.place, []).append(need)
    return stores


def files_of(stores: Mapping[str, list[NeededVersion]]) -> Iterator[StateFile]:
    """Yield each store's files to read first. Unreadable files are left to later checks."""
    for need in chain.from_iterable(stores.values()):
        with suppress(CheckpointCorruptError, StorageUnavailableError):
            yield from need.ways()[0]()


def look_into_state(
    directory: Tree, stores: Mapping[str, list[NeededVersion]], reader: StateReader, tell: Tell | None
) -> None:
    """Read the state of all batches."""
    for done, _ in enumerate(_each(stores.values(), reader, directory.at_once), start=1):
        if tell is not None:
            tell(done, len(stores))


def _each(stores: Iterable[list[NeededVersion]], reader: StateReader, at_once: int) -> Iterator[None]:
    def look(needs: list[NeededVersion]) -> None:
        for need in needs:
            reader.lacks(need)

    if at_once == 1:
        yield from map(look, stores)
        return
    with ThreadPoolExecutor(at_once) as pool:
        try:
            yield from pool.map(look, stores)
        finally:
            # One unreadable file is the answer for all: the others need no request.
            pool.shutdown(cancel_futures=True)


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
) -> VerificationReport:
    """Report whether Spark can start from *directory*, and to which batches it could be restored.

    A running query is judged in its current state; if a file is missing and the query has progressed, it is judged
    again.

    :param directory: Any Spark checkpoint directory: a path, or the result of
        :func:`~airflow_provider_ha.checkpoints.spark.places.directory_at` for a URI.
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


def settled(
    look: Callable[[], VerificationReport], went_on: Callable[[VerificationReport], bool]
) -> VerificationReport:
    """Judge again while a file is missing under a running query: the query may have purged it.

    :param went_on: Whether the query planned or committed a batch since the previous judgement.
    """
    for _ in range(_LOOKS - 1):
        report = look()
        if report.startable is not False or not went_on(report):
            return report
    return look()


def _look(directory: Tree, asked: _Question) -> VerificationReport:
    findings = Findings()
    try:
        return _judge(directory.fresh(), asked, findings)
    except StorageUnavailableError as error:
        _add_unreadable(error, findings)
        return VerificationReport(startable=None, restorable=[], findings=findings.all())
    except CheckpointCorruptError as error:
        if error.path != BASE:
            raise  # other damage is judged where it is read
        findings.add(
            Finding(Code.BASE_CORRUPT, BASE, None, error.reason, "a complete base of this release", blocks=True)
        )
        return VerificationReport(startable=False, restorable=[], findings=findings.all())


def _went_on(directory: Tree, report: VerificationReport) -> bool:
    try:
        return progress(directory) != Progress(report.planned, report.committed)
    except (StorageUnavailableError, CheckpointCorruptError):
        return False


def _judge(directory: Tree, asked: _Question, findings: Findings) -> VerificationReport:
    if not directory.is_directory():
        what, next_step = directory.absence()
        raise StorageUnavailableError(f"{directory} {what}", next_step=next_step)
    found = [name for name in files.names(directory) if not name.startswith(".")]
    if found and not set(found) & set(_PARTS):
        holds = f"it has {found[0]}, but no file of a Spark checkpoint"
        findings.add(Finding(Code.NOT_A_CHECKPOINT, ".", None, holds, f"one of {', '.join(_PARTS)}", blocks=None))
        return VerificationReport(startable=None, restorable=[], findings=findings.all())
    expect_logs(directory)
    logs = read_logs(directory)
    expect_sources(directory, logs)
    content = ContentCheck(directory, asked.release) if asked.depth == "full" else None
    subject = VerificationSubject(
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
    return VerificationReport(
        startable=False if findings.blocked else None if findings.open or not known else True,
        restorable=[verdict.batch for verdict in batches if verdict.restorable],
        findings=findings.all(),
        planned=logs.progress.planned,
        committed=logs.progress.committed,
        batches=batches,
        sink=sink_state,
    )


def _look_into_state(subject: VerificationSubject, content: ContentCheck | None, asked: _Question) -> None:
    stores = stores_of(subject.logs, subject.reader)
    with ExitStack() as held:
        if content is not None and subject.directory.local_path is not None and asked.processes > 1:
            held.enter_context(helped(content, subject.directory, asked.release, files_of(stores), asked.processes))
        look_into_state(subject.directory, stores, subject.reader, asked.tell)


def _check_start(subject: VerificationSubject, removed: list[Reason], findings: Findings) -> None:
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


def _check_sink(
    sink: Tree | None, subject: VerificationSubject, findings: Findings
) -> tuple[SinkLogState | None, bool]:
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
