"""Verifying that no state lies ahead of the logs which a later start would load instead of what is written from now on.

Whatever is above the newest version that a planned batch can have written is of another timeline, or of a batch that
was taken out of the logs. A batch writes its delta, its changelog or, without changelogs, its zip over what has that
name. Nobody writes a snapshot over another one, nor a zip where changelogs are used: these are made now and then, and
the newest one up to a version is what a start begins with (``HDFSBackedStateStoreProvider.loadMap``,
``RocksDBFileManager.getLatestSnapshotVersion``, 3.5 and later; read in 3.4 to 4.2, started on 3.4 to 4.3).

Invariant: files of checkpoint format 2 carry an id, and mean nothing unless a commit names them.
"""

from __future__ import annotations

import re

from airflow_provider_ha.checkpoints.format import hdfs_state, rocksdb
from airflow_provider_ha.checkpoints.format.store_files import Store
from airflow_provider_ha.checkpoints.verification.codes import Code
from airflow_provider_ha.checkpoints.verification.findings import Finding
from airflow_provider_ha.checkpoints.verification.report import Findings
from airflow_provider_ha.checkpoints.verification.subject import Subject
from airflow_provider_ha.errors import CheckpointCorruptError


_BY_NUMBER = re.compile(r"(\d+)\.(delta|snapshot|zip|changelog)")


def check_stale(subject: Subject, findings: Findings) -> None:
    """Report state of another timeline: versions that no planned batch can have written."""
    planned = subject.logs.progress.planned
    expected = f"nothing above version {planned + 1}, the newest that batch {planned} can write"
    for store in subject.reader.stores():
        numbered = (match for name in store.names if (match := _BY_NUMBER.fullmatch(name)))
        above = sorted((int(match[1]), match[2], match[0]) for match in numbered if int(match[1]) > planned + 1)
        for version, kind, name in above:
            loaded = _is_loaded(subject, store, version, kind)
            does = "a later start loads it" if loaded else "it is written over before anybody reads it"
            what = f"it is newer than version {planned + 1}, and {does}"
            findings.add(Finding(Code.STATE_STALE, store.path(name), planned, what, expected, blocks=loaded))


def _is_loaded(subject: Subject, store: Store, version: int, kind: str) -> bool:
    """Whether a later start begins with this file, although another timeline wrote it."""
    release = subject.release
    if kind == "snapshot":
        return not release.falls_back or _is_whole(subject, store, version, kind)
    if kind == "zip" and release.knows_changelogs and rocksdb.changelogs_used(store):
        return not release.falls_back or _is_whole(subject, store, version, kind)
    return False


def _is_whole(subject: Subject, store: Store, version: int, kind: str) -> bool:
    """Whether it can be loaded: a release that falls back passes over one that cannot."""
    try:
        ways = hdfs_state.chains(store, version) if kind == "snapshot" else rocksdb.chains(store, version, None)
        subject.reader.whole(ways[0])
    except CheckpointCorruptError:
        return False
    return True
