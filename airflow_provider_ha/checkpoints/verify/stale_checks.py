"""Checks for state ahead of the logs that a later start would load instead of newly written state.

Every file above the newest version that a planned batch can have written belongs to another timeline, or to a batch
that was removed from the logs. A batch overwrites an existing delta, changelog or, without changelogs, zip with the
same name. Spark does not overwrite a snapshot, nor a zip where changelogs are used: these are written periodically, and
a start begins with the newest one up to its version (``HDFSBackedStateStoreProvider.loadMap``,
``RocksDBFileManager.getLatestSnapshotVersion``, 3.5 and later; read in 3.4 to 4.2, tested on 3.4 to 4.3).

Invariant: files of checkpoint format 2 carry an id, and count only when a commit names them.
"""

from __future__ import annotations

import re
from functools import partial

from airflow_provider_ha.checkpoints.format import hdfs_state, rocksdb
from airflow_provider_ha.checkpoints.format.store_files import Kind, StateFile, Store
from airflow_provider_ha.checkpoints.verify.codes import Code
from airflow_provider_ha.checkpoints.verify.findings import Finding
from airflow_provider_ha.checkpoints.verify.report import Findings
from airflow_provider_ha.checkpoints.verify.subject import Subject
from airflow_provider_ha.errors import CheckpointCorruptError


_BY_NUMBER = re.compile(r"(\d+)\.(delta|snapshot|zip|changelog)")
# spark.sql.streaming.minBatchesToRetain, while no purge has revealed the actual value.
_KEPT = 100


def check_stale(subject: Subject, findings: Findings) -> None:
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


def _add_stale(subject: Subject, store: Store, version: int, kind: str, findings: Findings) -> None:
    planned = subject.logs.progress.planned
    expected = f"no version above {planned + 1}, the newest that batch {planned} can write"
    loaded = _is_begun_with(subject, store, kind) and not _is_passed_over(subject, store, version, kind)
    does = "a later start loads it" if loaded else "it is overwritten before it is read"
    if not loaded and _purges(subject, version, kind):
        loaded, does = True, "this release purges files that the query needs because of it"
    found = f"it is newer than version {planned + 1}, and {does}"
    path = store.path(f"{version}.{kind}")
    findings.add(Finding(Code.STATE_STALE, path, planned, found, expected, blocks=loaded))


def _check_unfinished(subject: Subject, store: Store, version: int, kind: str, findings: Findings) -> None:
    """Report a bad file of the batch in flight: Spark executes it again, and overwrites all but snapshots."""
    try:
        subject.reader.whole(partial(_itself, store, version, kind))
    except CheckpointCorruptError as error:
        begun = _is_begun_with(subject, store, kind)
        blocks = begun and not subject.release.falls_back
        expected = "a complete file of the batch in flight" if begun else "any file: the batch in flight overwrites it"
        planned = subject.logs.progress.planned
        findings.add(Finding(Code.STATE_CORRUPT, error.path, planned, error.reason, expected, blocks=blocks))


def _is_begun_with(subject: Subject, store: Store, kind: str) -> bool:
    """Whether a start begins with a file of this kind that no batch must write again."""
    changelogs = subject.release.knows_changelogs and rocksdb.changelogs_used(store)
    return kind == "snapshot" or (kind == "zip" and changelogs)


def _is_passed_over(subject: Subject, store: Store, version: int, kind: str) -> bool:
    """Whether the release falls back to an older snapshot because this one cannot be loaded."""
    return subject.release.falls_back and not _is_whole(subject, store, version, kind)


def _purges(subject: Subject, version: int, kind: str) -> bool:
    """Whether the next clean-up counts back from *version*, and removes the state that the query needs.

    Before 3.5 a RocksDB store keeps that many versions below its newest zip, on any base
    (``RocksDBFileManager.deleteOldVersions``). The reach of the logs shows the number.
    """
    reached, oldest = subject.logs.progress, min(subject.logs.offset_log.present)
    kept = reached.planned - oldest if oldest else _KEPT
    return kind == "zip" and not subject.release.knows_changelogs and version > subject.logs.next_base + 1 + kept


def _itself(store: Store, version: int, kind: str) -> list[StateFile]:
    return [store.file(f"{version}.{kind}", Kind(kind))]


def _is_whole(subject: Subject, store: Store, version: int, kind: str) -> bool:
    """Whether it can be loaded: a release with fallback skips a file that cannot."""
    try:
        ways = hdfs_state.chains(store, version) if kind == "snapshot" else rocksdb.chains(store, version, None)
        subject.reader.whole(ways[0])
    except CheckpointCorruptError:
        return False
    return True
