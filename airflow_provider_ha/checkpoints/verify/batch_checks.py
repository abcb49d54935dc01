"""Verdict on each batch: whether the checkpoint can be restored to it, or everything that it lacks.

Invariant: only the files that a fork copies for a batch decide its verdict. Damage elsewhere never condemns it, and a
Spark start that works around a bad file proves nothing about a fork.
"""

from __future__ import annotations

from collections.abc import Iterator

from airflow_provider_ha.checkpoints.format.layout import OFFSETS
from airflow_provider_ha.checkpoints.verify.codes import Code
from airflow_provider_ha.checkpoints.verify.conf_checks import conf_lacks
from airflow_provider_ha.checkpoints.verify.log_checks import sources_lack
from airflow_provider_ha.checkpoints.verify.operator_checks import naming_operators, operators_lack
from airflow_provider_ha.checkpoints.verify.report import BatchVerdict, Reason
from airflow_provider_ha.checkpoints.verify.source_checks import source_lacks
from airflow_provider_ha.checkpoints.verify.sparse import Tracking, previous, tracking
from airflow_provider_ha.checkpoints.verify.state_checks import state_directory_lacks, state_lacks
from airflow_provider_ha.checkpoints.verify.subject import Subject


def judge_batches(subject: Subject, removed: list[Reason]) -> tuple[BatchVerdict, ...]:
    """Return the verdict on every batch with an entry in the offset log or the commit log.

    :param removed: State that was removed as a whole, as far as file times show.
    :raises StorageUnavailableError: A file that a batch needs could not be read.
    """
    naming = naming_operators(subject)

    def _all_lacks(batch: int) -> Iterator[Reason]:
        yield from _lacks(subject, batch, naming)
        yield from _open(subject, batch, removed)

    return tuple(BatchVerdict(batch, tuple(_all_lacks(batch))) for batch in subject.logs.batches)


def _open(subject: Subject, batch: int, removed: list[Reason]) -> list[Reason]:
    """Return the state of *batch* that may have been removed, unless its commit names it."""
    commits = subject.logs.commits.get(batch)
    return [] if commits is not None and commits.state_ids else removed


def _lacks(subject: Subject, batch: int, naming: list[int]) -> Iterator[Reason]:
    logs = subject.logs
    if logs.query_id:
        yield logs.query_id
    yield from logs.commit_log.lacks(batch)
    yield from logs.offset_log.lacks(batch)
    before = previous(logs, batch, subject.kind)
    if before is not None:
        # Although it is committed: Spark refuses to start without it.
        yield from logs.offset_log.lacks(before)
        yield from sources_lack(logs, batch, before)
    if before != batch - 1 and tracking(logs, batch, subject.kind) is Tracking.UNKNOWN:
        yield Reason(Code.OFFSETS_SPARSE, f"{OFFSETS}/{batch - 1}", "it is not there: left out, or lost")
    offsets, commits = logs.offsets.get(batch), logs.commits.get(batch)
    if offsets is not None:
        yield from conf_lacks(subject, offsets)
        yield from source_lacks(subject.directory, offsets, subject.looked_into)
        if commits is not None:
            yield from state_lacks(subject.reader, offsets, commits)
    yield from operators_lack(subject, naming, batch)
    if commits is not None and not commits.state_ids:
        yield from state_directory_lacks(subject.directory, subject.kind)
