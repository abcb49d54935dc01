"""Checks for hidden checksums whose log entry is missing, under names that Spark will write.

Hadoop's local file system renames an entry first, and its checksum second. When that second name is taken, the query
dies, although the entry is written (``docs/explanation/spark-facts.md`` section 9). State files are overwritten, so a
leftover checksum there does no harm.

Invariant: only names that Spark has not reached yet count. Files that a running query writes or purges are not
leftovers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from airflow_provider_ha.checkpoints.format.closure import source_log
from airflow_provider_ha.checkpoints.format.layout import COMMITS, OFFSETS
from airflow_provider_ha.checkpoints.trees import files
from airflow_provider_ha.checkpoints.trees.tree import Tree
from airflow_provider_ha.checkpoints.verify.codes import Code
from airflow_provider_ha.checkpoints.verify.findings import Finding
from airflow_provider_ha.checkpoints.verify.report import Findings
from airflow_provider_ha.checkpoints.verify.subject import Subject


_HIDDEN = re.compile(r"\.(0|[1-9][0-9]*)(\.compact)?\.crc")
_EXPECTED = "no file: Spark will give this name to the checksum of a future entry"


def check_leftovers(subject: Subject, findings: Findings) -> None:
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


def _logs(subject: Subject) -> Iterator[tuple[str, int]]:
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
