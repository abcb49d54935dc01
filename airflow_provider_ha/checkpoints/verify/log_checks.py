"""Checks of the logs: query id, offsets, commits, their consistency, and the conf pinned in the offset log.

Invariant: an entry that Spark does not read at its next start never blocks that start; it only makes its own batch
unrestorable.

Invariant: a start reads only the newest planned entry. A bad older entry only prevents a restore to it.
"""

from __future__ import annotations

from collections.abc import Iterator

from airflow_provider_ha.checkpoints.spark.checkpoint_layout import (
    COMMITS,
    METADATA,
    OFFSETS,
    SOURCES,
    STATE,
    numbers,
)
from airflow_provider_ha.checkpoints.spark.files import names
from airflow_provider_ha.checkpoints.spark.metadata_log import NO_METADATA, OffsetsEntry
from airflow_provider_ha.checkpoints.spark.releases import (
    CODEC,
    PROVIDER,
    SHUFFLE_PARTITIONS,
    Release,
    conf_refusals,
    is_codec,
    time_refusals,
)
from airflow_provider_ha.checkpoints.spark.rocksdb import changelogs_used
from airflow_provider_ha.checkpoints.spark.tree import Tree
from airflow_provider_ha.checkpoints.verify.codes import Code
from airflow_provider_ha.checkpoints.verify.subject import (
    CheckpointLogs,
    Statefulness,
    Tracking,
    VerificationSubject,
    left_out,
    previous,
    ranges_text,
    tracking,
)
from airflow_provider_ha.checkpoints.verify.verification_report import Finding, Findings, Reason


_EXPECTED = "the query's conf as pinned by Spark"


def check_conf(subject: VerificationSubject, findings: Findings) -> None:
    """Report every entry with pinned conf that the release cannot read."""
    planned = subject.logs.progress.planned
    for batch, entry in sorted(subject.logs.offsets.items()):
        for lacks in conf_lacks(subject, entry):
            blocks = batch == planned
            findings.add(Finding(lacks.code, lacks.path, batch, lacks.found, _EXPECTED, blocks=blocks))


def conf_lacks(subject: VerificationSubject, entry: OffsetsEntry) -> list[Reason]:
    """Return the reasons why a start cannot use the conf pinned in *entry*."""
    path = f"{OFFSETS}/{entry.batch}"
    pinned = repr(entry.metadata.get("conf"))
    known = subject.refused_conf.get(pinned)
    if known is None:
        known = [*conf_refusals(entry.metadata, subject.release), *_codec(subject, entry)]
        subject.refused_conf[pinned] = known
    found = [*time_refusals(entry.metadata), *known]
    return [Reason(Code.CONF_REFUSED, path, "; ".join(found))] if found else []


def _codec(subject: VerificationSubject, entry: OffsetsEntry) -> Iterator[str]:
    """Yield problems with the codec. Spark creates it when it opens state compressed with it."""
    name = entry.conf.get(CODEC)
    if not isinstance(name, str) or is_codec(name) or subject.kind is not Statefulness.STATEFUL:
        return
    # RocksDB uses it only to compress its changelogs.
    if "RocksDB" not in entry.conf.get(PROVIDER, "") or any(map(changelogs_used, subject.reader.stores())):
        yield f"its {CODEC} is {name!r}, which is not a Spark codec"


_OFFSETS_ENTRY = "a version line, the metadata of the batch, and one JSON offset per source, as Spark wrote them"
_SPARKS_OWN = "an entry of Spark, or none"
_COMMITS_ENTRY = "a version line and the JSON of the commit"


def check_logs(subject: VerificationSubject, findings: Findings) -> None:
    """Report problems of the checkpoint's logs.

    :raises StorageUnavailableError: A log could not be read.
    """
    logs, kind, release = subject.logs, subject.kind, subject.release
    reached, before = logs.progress, previous(logs, logs.progress.planned, kind)
    _check_query_id(logs, release, findings)
    if logs.fence:
        found = "it is the record of a takeover: another driver continues in another directory"
        findings.add(Finding(Code.FENCED, logs.fence, None, found, _SPARKS_OWN, blocks=True))
    for batch, bad in logs.offset_log.bad.items():
        needed = batch in {before, reached.planned}
        findings.add(Finding(bad.code, bad.path, batch, bad.found, _OFFSETS_ENTRY, blocks=needed))
    for batch, bad in logs.commit_log.bad.items():
        needed = batch == reached.committed and (bad.found != NO_METADATA or _by_id(logs))
        findings.add(Finding(bad.code, bad.path, batch, bad.found, _COMMITS_ENTRY, blocks=needed))
    if reached.planned < 0:
        _check_never_planned(subject.directory, findings)
    else:
        check_conf(subject, findings)
        _check_previous(logs, before, kind, findings)
        _check_sources(logs, before, findings)
        _check_left_out(logs, kind, findings)
        _check_order(logs, kind, findings)
        _check_repartition(subject, findings)


def _check_query_id(logs: CheckpointLogs, release: Release, findings: Findings) -> None:
    bad = logs.query_id
    if logs.behind_id:
        # Spark's parser stops where the object ends: observed on 3.4 and 4.0.
        found, expected = "data follows the query id, which Spark does not read", "no data after the query id"
        findings.add(Finding(Code.METADATA_CORRUPT, METADATA, None, found, expected))
    if bad is None or (bad.code is Code.METADATA_MISSING and not logs.batches):
        return
    found = bad.found
    if bad.code is Code.METADATA_MISSING:
        # A start under another id is not a continuation: a sink that knows the old id takes every replayed row twice.
        does = "refuses to start" if release.needs_query_id else "continues under a new query id"
        found = f"{found}; this release {does}"
    findings.add(Finding(bad.code, bad.path, None, found, 'the id of the query: {"id":"..."}', blocks=True))


def _check_previous(logs: CheckpointLogs, before: int | None, kind: Statefulness, findings: Findings) -> None:
    planned = logs.progress.planned
    if before is None and planned > 0 and logs.progress.in_flight:
        # Asynchronous tracking treats a missing entry as the beginning, and would execute all input again.
        found, expected = "it has no older entry", f"an entry before batch {planned}, which is not committed"
        findings.add(Finding(Code.OFFSETS_MISSING, OFFSETS, planned, found, expected, blocks=True))
    if before is not None and before not in logs.offset_log.present:
        blocks = None if tracking(logs, planned, kind) is Tracking.UNKNOWN else True
        # Spark refuses with "batch <n> doesn't exist", although that batch is committed (SPARK-38033).
        expected = f"the entry before batch {logs.progress.planned}, the last planned one"
        path = f"{OFFSETS}/{before}"
        findings.add(Finding(Code.OFFSETS_MISSING, path, before, "it is not there", expected, blocks=blocks))


def _check_sources(logs: CheckpointLogs, before: int | None, findings: Findings) -> None:
    """Report that the two entries read at a start have different numbers of sources: a line was cut off."""
    for lacks in sources_lack(logs, logs.progress.planned, before):
        findings.add(Finding(lacks.code, lacks.path, None, lacks.found, _OFFSETS_ENTRY, blocks=True))


def sources_lack(logs: CheckpointLogs, batch: int, before: int | None) -> list[Reason]:
    """Return which of two consecutive entries has lost a line: Spark compares both with the query's sources."""
    last, previous_one = logs.offsets.get(batch), logs.offsets.get(before) if before is not None else None
    if last is None or previous_one is None or {last.version, previous_one.version} != {1}:
        return []
    if len(last.offsets) == len(previous_one.offsets):
        return []
    shorter, longer = sorted((last, previous_one), key=lambda entry: len(entry.offsets))
    found = f"it has {len(shorter.offsets)} of the {len(longer.offsets)} sources that batch {longer.batch} has"
    return [Reason(Code.OFFSETS_CORRUPT, f"{OFFSETS}/{shorter.batch}", found)]


def _check_left_out(logs: CheckpointLogs, kind: Statefulness, findings: Findings) -> None:
    missing = left_out(logs, kind)
    if missing:
        found = f"neither log has batch {ranges_text(missing)}: read as asynchronous progress tracking"
        expected = "an entry of every batch, or a query that runs with asyncProgressTrackingEnabled"
        # A single gap below the newest batch may be a lost entry: without that option Spark then fails.
        blocks = None if tracking(logs, logs.progress.planned, kind) is Tracking.UNKNOWN else False
        findings.add(Finding(Code.OFFSETS_SPARSE, OFFSETS, None, found, expected, blocks=blocks))


def _check_never_planned(directory: Tree, findings: Findings) -> None:
    left = [name for name in (COMMITS, STATE) if any(not name.startswith(".") for name in names(directory / name))]
    if any(number > 0 for place in names(directory, SOURCES) for number in numbers(directory, f"{SOURCES}/{place}")):
        # A batch is planned before the source lists files for the next one: one entry may come from a first, failed
        # start.
        left.append(SOURCES)
    if left:
        found = f"no batch is planned, but {' and '.join(left)} have files: this is not a fresh start"
        # 4.1 and later refuse. Older releases start again, and fail where a batch already has its commit (observed on
        # 3.4 and 4.0), or write all rows once more.
        expected = "the entries of the planned batches"
        findings.add(Finding(Code.OFFSETS_MISSING, OFFSETS, None, found, expected, blocks=True))
    else:
        findings.add(Finding(Code.EMPTY, ".", None, "it has no planned batch: Spark starts from the beginning"))


def _check_order(logs: CheckpointLogs, kind: Statefulness, findings: Findings) -> None:
    planned, committed = logs.progress.planned, logs.progress.committed
    if not logs.commit_log.present and _is_of_2_1(logs):
        return
    between = any(committed < batch < planned for batch in logs.offset_log.present)
    if committed > planned:
        found = f"batch {committed} is committed, but only {planned} is planned"
        path, expected = f"{COMMITS}/{committed}", f"no commit after that of batch {planned}"
        findings.add(Finding(Code.COMMITS_AHEAD, path, committed, found, expected, blocks=True))
    elif between or (planned > committed + 1 and kind is Statefulness.STATEFUL):
        # Spark only warns, and executes the newest planned batch. With format 2 the ids of its state are lost.
        found = f"batch {planned} is planned, but only {committed} is committed"
        path, expected = f"{COMMITS}/{planned - 1}", f"the commit of batch {planned - 1}"
        findings.add(Finding(Code.COMMITS_BEHIND, path, planned - 1, found, expected, blocks=_by_id(logs)))


def _by_id(logs: CheckpointLogs) -> bool:
    """Whether the commits name the state by ids (checkpoint format 2)."""
    return any(entry.state_ids for entry in logs.commits.values())


def _is_of_2_1(logs: CheckpointLogs) -> bool:
    """Whether Spark 2.1 wrote the logs: 2.2 began to pin the conf (SPARK-19873) and to log commits (SPARK-19876)."""
    newest = logs.offsets.get(logs.progress.planned)
    return newest is not None and "conf" not in newest.metadata


def _check_repartition(subject: VerificationSubject, findings: Findings) -> None:
    logs = subject.logs
    before, last = logs.offsets.get(logs.progress.planned - 1), logs.offsets.get(logs.progress.planned)
    if not (logs.progress.in_flight and before and last):
        return
    old, new = (entry.conf.get(SHUFFLE_PARTITIONS) for entry in (before, last))
    if old == new:
        return
    found = f"it changes the partitions to {new} and is not committed"
    expected = f"{old} partitions as before, or the commit of the batch"
    # Before 4.2 Spark executes the batch: in partitions without state yet, or without partitions that had some.
    stateful = subject.kind is Statefulness.STATEFUL
    path, blocks = f"{OFFSETS}/{last.batch}", stateful or subject.release.refuses_unfinished_repartition
    findings.add(Finding(Code.REPARTITION_UNFINISHED, path, last.batch, found, expected, blocks=blocks))
