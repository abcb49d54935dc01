"""Verifying a checkpoint directory, managed or not.

Invariant: nothing is written, no name is followed out of the directory, and "could not be read" is never turned into
"is bad" (contract 6).
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from airflow_provider_ha.checkpoints.format import files
from airflow_provider_ha.checkpoints.format.content import deep_reader
from airflow_provider_ha.checkpoints.format.layout import COMMITS, METADATA, OFFSETS, SOURCES, STATE
from airflow_provider_ha.checkpoints.format.metadata_log import CommitsEntry
from airflow_provider_ha.checkpoints.format.releases import Release, release
from airflow_provider_ha.checkpoints.format.state import StateReader
from airflow_provider_ha.checkpoints.verification.findings import Code
from airflow_provider_ha.checkpoints.verification.log_checks import Logs, check_logs
from airflow_provider_ha.checkpoints.verification.report import Findings, Report
from airflow_provider_ha.checkpoints.verification.source_checks import check_sources, sources_whole
from airflow_provider_ha.checkpoints.verification.state_checks import (
    check_schemas,
    check_stale,
    check_state,
    state_whole,
)
from airflow_provider_ha.errors import StorageUnavailableError


Depth = Literal["quick", "full"]
_PARTS = (METADATA, OFFSETS, COMMITS, SOURCES, STATE)


def verify(directory: Path, *, depth: Depth = "full", spark_version: str | None = None) -> Report:
    """Say whether Spark can start from *directory* as it stands, and to which batches it could be restored.

    :param directory: Any Spark checkpoint directory.
    :param depth: ``"quick"`` reads logs, names and sizes; ``"full"`` also reads every state file to its end.
    :param spark_version: The release that is to start from it, as ``4.2.0``; the installed one when not given.
    :raises ConfigurationError: *spark_version* is not a version.
    """
    findings = Findings()
    judged_as = release(spark_version)
    try:
        return _verify(directory, depth, judged_as, findings)
    except StorageUnavailableError as error:
        findings.add(Code.UNREADABLE, getattr(error, "path", "."), error.message)
        return Report(startable=None, restorable=[], findings=findings.all())


def _verify(directory: Path, depth: Depth, judged_as: Release, findings: Findings) -> Report:
    if not files.is_directory(directory):
        raise StorageUnavailableError(f"{directory} is not a directory")
    found = [name for name in files.names(directory) if not name.startswith(".")]
    if found and not set(found) & set(_PARTS):
        findings.add(Code.NOT_A_CHECKPOINT, ".", "nothing in the directory belongs to a checkpoint of Spark")
        return Report(startable=None, restorable=[], findings=findings.all())
    reader = deep_reader(directory, judged_as) if depth == "full" else StateReader(directory)
    logs = check_logs(directory, judged_as, findings)
    if logs.progress.planned >= 0:
        _check_next_start(directory, reader, logs, judged_as, findings)
    startable = not findings.blocked
    return Report(
        startable=startable,
        restorable=_restorable(directory, reader, logs, startable=startable),
        findings=findings.all(),
        planned=logs.progress.planned,
        committed=logs.progress.committed,
    )


def _check_next_start(directory: Path, reader: StateReader, logs: Logs, judged_as: Release, findings: Findings) -> None:
    """Report what the next start of Spark would stumble over, or would not notice."""
    last, base = logs.offsets.get(logs.progress.planned), logs.next_base
    if last is not None:
        check_sources(directory, last, findings)
    check_schemas(directory, findings)
    check_stale(reader, logs.progress, findings)
    offsets, commits = logs.offsets.get(base), logs.commits.get(base)
    if base >= 0 and offsets is not None:
        # More than one batch without a commit: format 1 finds its state by number alone.
        check_state(reader, offsets, commits or CommitsEntry(base, 1, {}, {}), judged_as, findings)


def _restorable(directory: Path, reader: StateReader, logs: Logs, *, startable: bool) -> list[int]:
    """Return the batches whose closure is whole; the newest one also when Spark can start from it as it stands."""
    if not logs.query_id:
        return []
    return [
        batch
        for batch, commits in logs.commits.items()
        if (startable and batch == logs.progress.committed)
        or (
            batch in logs.offsets
            and (batch == 0 or batch - 1 in logs.offsets)
            and sources_whole(directory, logs.offsets[batch])
            and state_whole(reader, logs.offsets[batch], commits)
        )
    ]
