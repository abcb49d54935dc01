"""Checks for files left ahead of the logs: hidden checksums and state that a later start would use.

Hadoop's local file system renames an entry first, and its checksum second. When that second name is taken, the query
dies, although the entry is written (``docs/explanation/spark-facts.md`` section 9). State files are overwritten, so a
leftover checksum there does no harm.

Invariant: only names that Spark has not reached yet count. Files that a running query writes or purges are not
leftovers.

Every file above the newest version that a planned batch can have written belongs to another timeline, or to a batch
that was removed from the logs. A batch overwrites an existing delta, changelog or, without changelogs, zip with the
same name. Spark does not overwrite a snapshot, nor a zip where changelogs are used: these are written periodically, and
a start begins with the newest one up to its version (``HDFSBackedStateStoreProvider.loadMap``,
``RocksDBFileManager.getLatestSnapshotVersion``, 3.5 and later; read in 3.4 to 4.2, tested on 3.4 to 4.3).

Invariant: files of checkpoint format 2 carry an id, and count only when a commit names them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from airflow_provider_ha.checkpoints.spark import files, rocksdb, state_store
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import COMMITS, OFFSETS
from airflow_provider_ha.checkpoints.spark.closure import source_log
from airflow_provider_ha.checkpoints.spark.state_store import StateFile, StateFileKind, StateStore
from airflow_provider_ha.checkpoints.spark.tree import Tree
from airflow_provider_ha.checkpoints.verify.codes import Code
from airflow_provider_ha.checkpoints.verify.subject import VerificationSubject
from airflow_provider_ha.checkpoints.verify.verification_report import Finding, Findings
from airflow_provider_ha.errors import CheckpointCorruptError


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
    loaded = _is_begun_with(subject, store, kind) and not _is_passed_over(subject, store, version, kind)
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
        subject.reader.whole(partial(_itself, store, version, kind))
    except CheckpointCorruptError as error:
        begun = _is_begun_with(subject, store, kind)
        blocks = begun and not subject.release.falls_back
        expected = "a complete file of the batch in flight" if begun else "any file: the batch in flight overwrites it"
        planned = subject.logs.progress.planned
        findings.add(Finding(Code.STATE_CORRUPT, error.path, planned, error.reason, expected, blocks=blocks))


def _is_begun_with(subject: VerificationSubject, store: StateStore, kind: str) -> bool:
    """Whether a start begins with a file of this kind that no batch must write again."""
    changelogs = subject.release.knows_changelogs and rocksdb.changelogs_used(store)
    return kind == "snapshot" or (kind == "zip" and changelogs)


def _is_passed_over(subject: VerificationSubject, store: StateStore, version: int, kind: str) -> bool:
    """Whether the release falls back to an older snapshot because this one cannot be loaded."""
    return subject.release.falls_back and not _is_whole(subject, store, version, kind)


def _purges(subject: VerificationSubject, version: int, kind: str) -> bool:
    """Whether the next clean-up counts back from *version*, and removes the state that the query needs.

    Before 3.5 a RocksDB store keeps that many versions below its newest zip, on any base
    (``RocksDBFileManager.deleteOldVersions``). The reach of the logs shows the number.
    """
    reached, oldest = subject.logs.progress, min(subject.logs.offset_log.present)
    kept = reached.planned - oldest if oldest else _KEPT
    return kind == "zip" and not subject.release.knows_changelogs and version > subject.logs.next_base + 1 + kept


def _itself(store: StateStore, version: int, kind: str) -> list[StateFile]:
    return [store.file(f"{version}.{kind}", StateFileKind(kind))]


def _is_whole(subject: VerificationSubject, store: StateStore, version: int, kind: str) -> bool:
    """Whether it can be loaded: a release with fallback skips a file that cannot."""
    try:
        ways = state_store.hdfs_chains(store, version) if kind == "snapshot" else rocksdb.chains(store, version, None)
        subject.reader.whole(ways[0])
    except CheckpointCorruptError:
        return False
    return True


_HIDDEN = re.compile(r"\.(0|[1-9][0-9]*)(\.compact)?\.crc")
_EXPECTED = "no file: Spark will give this name to the checksum of a future entry"


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
            findings.add(Finding(Code.CHECKSUM_LEFT, path, None, found, _EXPECTED, blocks=blocks))


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
    for name in files.names(directory / log):
        match = _HIDDEN.fullmatch(name)
        # Checked after the checksum was seen: an entry gets its name before its checksum does.
        if match and int(match[1]) >= upcoming and not files.exists(directory, f"{log}/{name[1:-4]}"):
            yield int(match[1]), name
