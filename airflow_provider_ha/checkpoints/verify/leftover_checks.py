"""Verifying what lies where Spark will write: hidden checksums of log entries that are not there (any more).

Hadoop's local file system gives an entry its name, then its checksum the name beside it. When that name is taken, the
query dies, although the entry is written (``docs/explanation/spark-facts.md`` section 9). State files are written
over, so a checksum that is left there does no harm.

Invariant: only names that Spark has not come to yet. What a running query writes or purges is no leftover.
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
_EXPECTED = "nothing: Spark gives this name to the checksum of an entry that it has yet to write"


def check_leftovers(subject: Subject, findings: Findings) -> None:
    """Report hidden checksums without their entry, at or above the next entry of each log.

    Only the next entry keeps Spark from going on; the query comes to the others later. What lies on no file system of
    this host was not written through Hadoop's local one, and has no such checksums.
    """
    if not subject.directory.has_hidden_checksums:
        return
    for log, upcoming in _logs(subject):
        for entry, name in _left(subject.directory, log, upcoming):
            found = f"it is there, and {name[1:-4]}, whose checksum it is, is not"
            path, blocks = f"{log}/{name}", entry == upcoming
            findings.add(Finding(Code.CHECKSUM_LEFT, path, None, found, _EXPECTED, blocks=blocks))


def _logs(subject: Subject) -> Iterator[tuple[str, int]]:
    """Yield each log and the first entry of it that Spark has yet to write."""
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
        # Looked for after the checksum was seen: an entry gets its name before its checksum does.
        if match and int(match[1]) >= upcoming and not files.exists(directory, f"{log}/{name[1:-4]}"):
            yield int(match[1]), name
