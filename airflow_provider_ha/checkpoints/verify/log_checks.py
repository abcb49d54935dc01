"""Checks of the logs (query id, offsets, commits, consistency, pinned conf), and of files left ahead of them.

Invariant: an entry that Spark does not read at its next start never blocks that start; it only makes its own batch
unrestorable. A start reads only the newest planned entry: a bad older entry only prevents a restore to it.

Leftovers are hidden checksums and state that a later start would use. Hadoop's local file system renames an entry
first, and its checksum second. When that second name is taken, the query dies, although the entry is written
(``docs/explanation/spark-facts.md`` section 9). State files are overwritten, so a leftover checksum there does no harm.

Invariant: only names that Spark has not reached yet count. Files that a running query writes or purges are not
leftovers. Files of checkpoint format 2 carry an id, and count only when a commit names them.

Every file above the newest version that a planned batch can have written belongs to another timeline, or to a batch
that was removed from the logs. A batch overwrites an existing delta, changelog or, without changelogs, zip with the
same name. Spark does not overwrite a snapshot, nor a zip where changelogs are used: these are written periodically, and
a start begins with the newest one up to its version (``HDFSBackedStateStoreProvider.loadMap``,
``RocksDBFileManager.getLatestSnapshotVersion``, 3.5 and later; read in 3.4 to 4.2, tested on 3.4 to 4.3).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from airflow_provider_ha.checkpoints.spark import rocksdb, state_store
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import COMMITS, METADATA, OFFSETS, SOURCES, STATE, numbers
from airflow_provider_ha.checkpoints.spark.closure import source_log
from airflow_provider_ha.checkpoints.spark.files import exists, names
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
from airflow_provider_ha.checkpoints.spark.state_store import StateFileKind, StateStore
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
from airflow_provider_ha.errors import CheckpointCorruptError


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
    """Report problems of the checkpoint's logs."""
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


_BY_NUMBER = re.compile(r"(\d+)\.(delta|snapshot|zip|changelog)")
# spark.sql.streaming.minBatchesToRetain, while no purge has revealed the actual value.
_KEPT = 100


def check_stale(subject: VerificationSubject, findings: Findings) -> None:
    """Report state of another timeline, and leftovers of the batch in flight that a later start cannot load."""
    reached = subject.logs.progress
    newest = reached.planned + 1
    for store in subject.reader.stores():
        numbered = (match for name in store.names if (match := _BY_NUMBER.fullmatch(name)))
        above = sorted((int(match[1]), match[2]) for match in numbered if int(match[1]) >= newest)
        for version, kind in above:
            if version > newest:
                _add_stale(subject, store, version, kind, findings)
            elif reached.in_flight:
                _check_unfinished(subject, store, version, kind, findings)


def _add_stale(subject: VerificationSubject, store: StateStore, version: int, kind: str, findings: Findings) -> None:
    planned = subject.logs.progress.planned
    expected = f"no version above {planned + 1}, the newest that batch {planned} can write"
    # A release that falls back ignores a snapshot that cannot be loaded.
    loaded = _is_begun_with(subject, store, kind) and not (
        subject.release.falls_back and not _is_whole(subject, store, version, kind)
    )
    does = "a later start loads it" if loaded else "it is overwritten before it is read"
    if not loaded and _purges(subject, version, kind):
        loaded, does = True, "this release purges files that the query needs because of it"
    found = f"it is newer than version {planned + 1}, and {does}"
    path = store.path(f"{version}.{kind}")
    findings.add(Finding(Code.STATE_STALE, path, planned, found, expected, blocks=loaded))


def _check_unfinished(
    subject: VerificationSubject, store: StateStore, version: int, kind: str, findings: Findings
) -> None:
    """Report a bad file of the batch in flight: Spark executes it again, and overwrites all but snapshots."""
    try:
        subject.reader.whole(lambda: [store.file(f"{version}.{kind}", StateFileKind(kind))])
    except CheckpointCorruptError as error:
        begun = _is_begun_with(subject, store, kind)
        blocks = begun and not subject.release.falls_back
        expected = "a complete file of the batch in flight" if begun else "any file: the batch in flight overwrites it"
        planned = subject.logs.progress.planned
        findings.add(Finding(Code.STATE_CORRUPT, error.path, planned, error.reason, expected, blocks=blocks))


def _is_begun_with(subject: VerificationSubject, store: StateStore, kind: str) -> bool:
    """Whether a start begins with a file of this kind that no batch must write again."""
    changelogs = subject.release.knows_changelogs and changelogs_used(store)
    return kind == "snapshot" or (kind == "zip" and changelogs)


def _purges(subject: VerificationSubject, version: int, kind: str) -> bool:
    """Whether the next clean-up counts back from *version*, and removes the state that the query needs.

    Before 3.5 a RocksDB store keeps that many versions below its newest zip, on any base
    (``RocksDBFileManager.deleteOldVersions``). The reach of the logs shows the number.
    """
    reached, oldest = subject.logs.progress, min(subject.logs.offset_log.present)
    kept = reached.planned - oldest if oldest else _KEPT
    return kind == "zip" and not subject.release.knows_changelogs and version > subject.logs.next_base + 1 + kept


def _is_whole(subject: VerificationSubject, store: StateStore, version: int, kind: str) -> bool:
    """Whether it can be loaded: a release with fallback skips a file that cannot."""
    try:
        ways = state_store.hdfs_chains(store, version) if kind == "snapshot" else rocksdb.chains(store, version, None)
        subject.reader.whole(ways[0])
    except CheckpointCorruptError:
        return False
    return True


_HIDDEN = re.compile(r"\.(0|[1-9][0-9]*)(\.compact)?\.crc")
_NO_CHECKSUM = "no file: Spark will give this name to the checksum of a future entry"


def check_leftovers(subject: VerificationSubject, findings: Findings) -> None:
    """Report hidden checksums without their entry, at or above the next entry of each log.

    Only the next entry prevents Spark from continuing; the query reaches the others later. Files on remote storage were
    not
    written through Hadoop's local file system and have no such checksums.
    """
    if not subject.directory.has_hidden_checksums:
        return
    for log, upcoming in _logs(subject):
        for entry, name in _left(subject.directory, log, upcoming):
            found = f"it exists without {name[1:-4]}, the entry that it belongs to"
            path, blocks = f"{log}/{name}", entry == upcoming
            findings.add(Finding(Code.CHECKSUM_LEFT, path, None, found, _NO_CHECKSUM, blocks=blocks))


def _logs(subject: VerificationSubject) -> Iterator[tuple[str, int]]:
    """Yield each log with its next entry that Spark will write."""
    reached = subject.logs.progress
    yield OFFSETS, reached.planned + 1
    yield COMMITS, reached.planned if reached.in_flight else reached.planned + 1
    last = subject.logs.offsets.get(reached.planned)
    if last is None:
        return
    for position in range(len(last.offsets)):
        entry = last.log_offset(position)
        if entry is not None:
            yield source_log(subject.directory, last, position), entry + 1


def _left(directory: Tree, log: str, upcoming: int) -> Iterator[tuple[int, str]]:
    for name in names(directory / log):
        match = _HIDDEN.fullmatch(name)
        # Checked after the checksum was seen: an entry gets its name before its checksum does.
        if match and int(match[1]) >= upcoming and not exists(directory, f"{log}/{name[1:-4]}"):
            yield int(match[1]), name
