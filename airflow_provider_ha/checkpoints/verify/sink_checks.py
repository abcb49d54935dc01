"""Checks of a file sink against its checkpoint: the batches it has, and those it should have.

A file sink skips a batch in its log without executing the plan, and reads its log back at every compaction (spark-facts
sections 0 and 5). With a log that is ahead, behind or broken, a start therefore fails or loses rows.

Invariant: the sink is read between two reads of the checkpoint's logs. Batches that a running query writes in between
never make the sink appear ahead or behind.
"""

from __future__ import annotations

from airflow_provider_ha.checkpoints.connectors.file_sink_log import LOG
from airflow_provider_ha.checkpoints.format.compactible_log import CompactibleLog
from airflow_provider_ha.checkpoints.format.layout import progress
from airflow_provider_ha.checkpoints.format.metadata_log import CommitsEntry
from airflow_provider_ha.checkpoints.trees.tree import Tree
from airflow_provider_ha.checkpoints.verify.codes import Code
from airflow_provider_ha.checkpoints.verify.findings import Finding
from airflow_provider_ha.checkpoints.verify.report import Findings, SinkState
from airflow_provider_ha.checkpoints.verify.sink_log_checks import check_sink_log
from airflow_provider_ha.checkpoints.verify.state_checks import state_lacks
from airflow_provider_ha.checkpoints.verify.statefulness import Statefulness
from airflow_provider_ha.checkpoints.verify.subject import Subject
from airflow_provider_ha.errors import StorageUnavailableError


def check_sink(sink: Tree, subject: Subject, findings: Findings) -> SinkState:
    """Report problems of the file sink in *sink*, compared with the checkpoint that was read before.

    :raises StorageUnavailableError: The output directory is missing although batches were committed, or could not be
        read.
    """
    logs = subject.logs
    if not sink.is_directory():
        if logs.next_base >= 0:
            raise StorageUnavailableError(f"{sink} is not a directory", next_step="Name the output directory")
        return SinkState(sink, -1)
    has, reached = CompactibleLog(sink, LOG).last(), progress(subject.directory)
    place = str(sink / LOG)
    if has < 0 <= logs.next_base:
        found, expected = "it has no entry", f"the entries up to batch {logs.next_base}"
        findings.add(Finding(Code.SINK_LOG_MISSING, place, None, found, expected, blocks=True))
    elif has < logs.next_base:
        found, expected = (
            f"its last batch is {has}",
            f"batch {logs.next_base}, committed in the checkpoint",
        )
        findings.add(Finding(Code.SINK_BEHIND, place, logs.next_base, found, expected, blocks=True))
    elif has > reached.planned:
        found = f"its last batch is {has}"
        expected = f"none after batch {reached.planned}, the last planned one" if reached.planned >= 0 else "none"
        findings.add(Finding(Code.SINK_UNPLANNED, place, has, found, expected, blocks=True))
    elif reached == logs.progress:
        _check_in_flight(place, has, subject, findings)
    check_sink_log(sink, findings)
    return SinkState(sink, has)


def _check_in_flight(place: str, has: int, subject: Subject, findings: Findings) -> None:
    """Report that the sink already has the next batch: Spark skips it, including the state that it writes."""
    logs, reached = subject.logs, subject.logs.progress
    if not reached.in_flight or has < reached.planned:
        return
    blocks, offsets = False, logs.offsets.get(has)
    if subject.kind is Statefulness.STATEFUL and offsets is not None:
        # With format 2 the commit needs ids that are not passed in. With format 1 the state of the first attempt
        # counts.
        by_id = any(entry.state_ids for entry in logs.commits.values())
        blocks = by_id or bool(state_lacks(subject.reader, offsets, CommitsEntry(has, 1, {}, {})))
    found = f"it has batch {has}, which is planned but not committed: Spark skips it"
    expected = f"no batch after {reached.committed}, the last committed one" if reached.committed >= 0 else "none yet"
    findings.add(Finding(Code.SINK_AHEAD, place, has, found, expected, blocks=blocks))
