"""Verifying the logs: query id, offsets, commits, and what they say about each other.

Invariant: an entry that Spark does not read at its next start never blocks that start; it only makes its own batch one
that cannot be restored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_ha.checkpoints.format.files import FileGoneError, names
from airflow_provider_ha.checkpoints.format.layout import COMMITS, METADATA, OFFSETS, STATE, Progress, batches, progress
from airflow_provider_ha.checkpoints.format.metadata_log import (
    CommitsEntry,
    OffsetsEntry,
    read_commits,
    read_offsets,
    read_query_id,
)
from airflow_provider_ha.checkpoints.format.releases import Release
from airflow_provider_ha.checkpoints.verification.findings import Code
from airflow_provider_ha.checkpoints.verification.report import Findings
from airflow_provider_ha.checkpoints.verification.source_checks import check_hidden_sum
from airflow_provider_ha.errors import CheckpointCorruptError, CheckpointMissingError


@dataclass(frozen=True, slots=True)
class Logs:
    """What could be read of the logs.

    :param query_id: Whether the query id is usable for this release.
    :param next_base: Batch whose state the next batch reads; -1 for none. C, unless more than one batch is uncommitted.
    """

    progress: Progress
    offsets: Mapping[int, OffsetsEntry]
    commits: Mapping[int, CommitsEntry]
    query_id: bool

    @property
    def next_base(self) -> int:
        """Batch whose state the next batch reads; -1 for none."""
        return max(self.progress.committed, self.progress.planned - 1)


def check_logs(directory: Path, release: Release, findings: Findings) -> Logs:
    """Read all logs of the checkpoint and report what is wrong with them.

    :raises StorageUnavailableError: One could not be read.
    """
    reached = progress(directory)
    logs = Logs(
        progress=reached,
        offsets=_offsets(directory, reached, findings),
        commits=_commits(directory, reached, findings),
        query_id=_check_query_id(directory, reached, release, findings),
    )
    if reached.planned < 0:
        _check_never_planned(directory, release, findings)
    else:
        _check_order(logs, findings)
        _check_repartition(logs, release, findings)
    return logs


def _offsets(directory: Path, reached: Progress, findings: Findings) -> dict[int, OffsetsEntry]:
    entries = {}
    for batch in batches(directory, OFFSETS):
        try:
            entry = read_offsets(directory, batch)
            check_hidden_sum(directory, f"{OFFSETS}/{batch}")
            entries[batch] = entry
        except (CheckpointCorruptError, CheckpointMissingError) as error:  # noqa: PERF203  # each entry for itself
            needed = batch >= reached.planned - 1
            findings.add(Code.OFFSETS_CORRUPT, f"{OFFSETS}/{batch}", error.message, batch=batch, blocks=needed)
    before = reached.planned - 1
    if before >= 0 and before not in batches(directory, OFFSETS):
        # Spark refuses with "batch <n> doesn't exist", although that batch is committed (SPARK-38033).
        message = f"batch {reached.planned} is planned, and the entry of the batch before it is not there"
        findings.add(Code.OFFSETS_MISSING, f"{OFFSETS}/{before}", message, batch=before, blocks=True)
    return entries


def _commits(directory: Path, reached: Progress, findings: Findings) -> dict[int, CommitsEntry]:
    entries = {}
    for batch in batches(directory, COMMITS):
        try:
            entries[batch] = read_commits(directory, batch)
        except (CheckpointCorruptError, CheckpointMissingError) as error:  # noqa: PERF203  # each entry for itself
            newest = batch == reached.committed
            findings.add(Code.COMMITS_CORRUPT, f"{COMMITS}/{batch}", error.message, batch=batch, blocks=newest)
    return entries


def _check_query_id(directory: Path, reached: Progress, release: Release, findings: Findings) -> bool:
    try:
        read_query_id(directory)
    except FileGoneError:
        if max(reached.planned, reached.committed) < 0:
            return True
        message = "the query id is gone: Spark refuses to start, or goes on under a new id that sinks do not know"
        findings.add(Code.METADATA_MISSING, METADATA, message, blocks=release.needs_query_id)
        return not release.needs_query_id
    except CheckpointCorruptError as error:
        findings.add(Code.METADATA_CORRUPT, METADATA, error.message, blocks=True)
        return False
    return True


def _check_never_planned(directory: Path, release: Release, findings: Findings) -> None:
    left = [name for name in (COMMITS, STATE) if any(not name.startswith(".") for name in names(directory / name))]
    if left:
        message = f"no batch is planned, but {' and '.join(left)} hold something: that is no fresh start"
        blocks = release.refuses_state_without_offsets or STATE in left
        findings.add(Code.OFFSETS_MISSING, OFFSETS, message, blocks=blocks)
    else:
        findings.add(Code.EMPTY, ".", "no batch was ever planned: Spark starts from the beginning")


def _check_order(logs: Logs, findings: Findings) -> None:
    planned, committed = logs.progress.planned, logs.progress.committed
    if committed > planned:
        message = f"batch {committed} is committed, but only {planned} is planned: Spark dies at its next commit"
        findings.add(Code.COMMITS_AHEAD, f"{COMMITS}/{committed}", message, batch=committed, blocks=True)
    elif planned > committed + 1:
        # Spark only warns, and executes the newest planned batch. With format 2 the ids of its state are gone.
        by_id = any(entry.state_ids for entry in logs.commits.values())
        message = f"batch {planned} is planned, but only {committed} is committed"
        findings.add(Code.COMMITS_BEHIND, f"{COMMITS}/{planned - 1}", message, batch=planned - 1, blocks=by_id)


def _check_repartition(logs: Logs, release: Release, findings: Findings) -> None:
    before, last = logs.offsets.get(logs.progress.planned - 1), logs.offsets.get(logs.progress.planned)
    key = "spark.sql.shuffle.partitions"
    if not (logs.progress.in_flight and before and last) or before.conf.get(key) == last.conf.get(key):
        return
    message = f"batch {last.batch} changes the partitions from {before.conf.get(key)} and is not committed"
    path, blocks = f"{OFFSETS}/{last.batch}", release.refuses_unfinished_repartition
    findings.add(Code.REPARTITION_UNFINISHED, path, message, batch=last.batch, blocks=blocks)
