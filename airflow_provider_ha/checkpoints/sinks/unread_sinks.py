"""Sinks whose batches cannot be read: Kafka, other tables and formats, and ``foreachBatch`` functions with their notes.

A table of another format skips a batch whose number it has, as Delta does. So a restore plan does not treat it as a
sink that receives every batch again: it reports that the facts are unknown, and a user accepts that by name.

Spark does not record the batches that a ``foreachBatch`` function has seen: a batch is planned before the call and
committed after the function has returned. So a fenced function notes each batch before and after its call, and a
restore knows more than "it may have everything that was ever planned" (``driver.context``).

Invariant: the note of a batch is on the disk before the function sees the batch. An epoch writes only its own file,
so a driver that lost the job cannot hide the batches given to its successor.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from airflow_provider_ha.checkpoints.model import GivenBatches, QuerySink, SinkKind
from airflow_provider_ha.checkpoints.plan_model import Verdict
from airflow_provider_ha.checkpoints.sinks.sink_type import (
    BY_KEY,
    OWN_OUTPUT,
    RECORDED_CUT,
    REPEATABLE,
    RestoreFindings,
    SinkCase,
    SinkType,
)
from airflow_provider_ha.checkpoints.spark.files import names, read
from airflow_provider_ha.checkpoints.spark.tree import WritableTree
from airflow_provider_ha.records import Record


_FORMATS = frozenset({"hudi", "org.apache.hudi"})  # HoodieStreamingSink: "skipping already completed batch"


class OtherTableSink(SinkType):
    """Hudi tables."""

    table = "Hudi table"

    def takes(self, source: str) -> bool:
        """Match the format, in any case."""
        return source.lower() in _FORMATS

    def again(self, sink: QuerySink) -> str:  # noqa: ARG002  # the same for all tables
        """Return that skipping is unknown: it may skip existing batches, which are not read here."""
        return "it is unknown whether its table skips a batch that it has"

    def judge(self, sink: QuerySink, case: SinkCase, findings: RestoreFindings) -> dict[int, str]:  # noqa: ARG002  # no finding here
        """Add no finding: the unknown batches are a separate finding."""
        return {}


# For inspection: their rows are gone with the driver.
DEBUG_FORMATS = frozenset({"console", "memory"})
_TRANSIENT_FORMATS = DEBUG_FORMATS | {"noop"}


class OtherSink(SinkType):
    """All formats without a separate type."""

    def takes(self, source: str) -> bool:  # noqa: ARG002  # matches every format
        """Match any format."""
        return True

    def owns(self, sink: QuerySink) -> bool:
        """Match also an unnamed sink."""
        return sink.kind is SinkKind.OTHER

    def again(self, sink: QuerySink) -> str:
        """Return that the sink receives the rows again."""
        if not self.remembers_unseen(sink):
            return "the content of its sink ends with the driver"
        return super().again(sink)

    def remembers_unseen(self, sink: QuerySink) -> bool:
        """Return whether rows outlive the driver; those of a sink for debugging end with it."""
        return (sink.format or "").lower() not in _TRANSIENT_FORMATS

    def judge(self, sink: QuerySink, case: SinkCase, findings: RestoreFindings) -> dict[int, str]:
        """Judge the batches that it may have and receives again."""
        if case.top is None or (sink.format or "").lower() in _TRANSIENT_FORMATS:
            return {}
        if sink.unplanned:
            # guard: unplanned-batches-are-safe
            findings.add(
                Verdict.DUPLICATES_POSSIBLE,
                f"the rows read after batch {case.batch} are written again to a {sink.format or 'custom'} sink: the "
                "query runs in real-time or continuous mode, whose batches cannot be repeated",
                "restore the newest cut: it repeats the fewest rows",
                f"remove from the sink the rows after batch {case.batch}",
                OWN_OUTPUT,
            )
            return {}
        judge_given(case, case.top, findings)
        judge_repeated(sink, (case.batch + 1, case.top), f"written again to a {sink.format or 'custom'} sink", findings)
        return {}


def judge_repeated(sink: QuerySink, batches: tuple[int, int], how: str, findings: RestoreFindings) -> None:
    """Judge batches that the sink has, or may have, and receives again.

    :param batches: First and last batch; empty when the last is before the first.
    :param how: Text after "batches 5 to 9 are".
    """
    first, last = batches
    if first > last or sink.repeatable:  # guard: batches-come-again-as-safe
        return
    findings.add(
        Verdict.DUPLICATES_POSSIBLE,
        f"batch {first} is {how}" if first == last else f"batches {first} to {last} are {how}",
        REPEATABLE,
        "restore the newest cut: it repeats the fewest batches",
        f"remove from the sink the rows after batch {first - 1}",
        OWN_OUTPUT,
    )


def judge_given(case: SinkCase, top: int, findings: RestoreFindings) -> None:
    """Judge a sink that executes every batch: it may have all batches that were ever planned."""
    _judge_beyond(case, top, findings)
    if case.drained is not None and case.drain_wrote:
        findings.add(
            Verdict.DUPLICATES_POSSIBLE,
            f"the sink may have the rows of the drain's batch {case.drained[0]}, which cannot be taken back",
            f"remove the rows of batch {case.drained[0]}, or write by key so that it is written over",
            OWN_OUTPUT,
        )


def _judge_beyond(case: SinkCase, top: int, findings: RestoreFindings) -> None:
    """Judge the sink's possible batches beyond the recorded ones; a fenced function's notes limit them."""
    last = case.drained[0] - 1 if case.drained is not None else None
    planned_to = case.planned_to if last is None else min(case.planned_to, last)
    if case.noted_to is not None:
        reached = case.noted_to if last is None else min(case.noted_to, last)
        if reached > top:
            findings.add(
                Verdict.LOSS_POSSIBLE,
                f"the fenced function was given batches up to {reached}, but boundaries are recorded up to {top} only",
                RECORDED_CUT,
                f"accept LOSS_POSSIBLE by name, once the rows after batch {top} are removed from the sink",
            )
    elif planned_to > top:
        findings.add(
            Verdict.LOSS_POSSIBLE,
            f"batches up to {planned_to} were planned, but boundaries are recorded up to {top} only",
            RECORDED_CUT,
            f"look whether the sink has anything after batch {top}; if not, accept LOSS_POSSIBLE by name",
        )
    elif not case.complete:
        findings.add(
            Verdict.LOSS_POSSIBLE,
            f"the last working directory is gone, so batches after {top} may have reached the sink without a record",
            f"look whether the sink has anything after batch {top}; if not, accept LOSS_POSSIBLE by name",
            "wrap the function with fenced(): its notes outlive the working directory",
        )


class KafkaSink(OtherSink):
    """Topics. Their possible content is judged by the checkpoint."""

    def takes(self, source: str) -> bool:
        """Match the format, in any case."""
        return source.lower() == "kafka"

    def owns(self, sink: QuerySink) -> bool:
        """Match by the format."""
        return SinkType.owns(self, sink)

    def identity(self, options: Mapping[str, str]) -> str | None:
        """Return the topic, without the brokers: they differ after a disaster."""
        return options.get("topic")


FOREACH_BATCH = "foreachBatch"
_FILE = re.compile(r"e(\d+)\.json")


class ForeachBatchSink(SinkType):
    """A function of the script."""

    has_notes = True

    def takes(self, source: str) -> bool:
        """Match the name of pyspark's method."""
        return source == FOREACH_BATCH

    def owns(self, sink: QuerySink) -> bool:
        """Match a function, with any format."""
        return sink.kind is SinkKind.FOREACH_BATCH

    def sink(self, source: str, path: str | None) -> QuerySink:  # noqa: ARG002  # a function has no path
        """Return the function's sink; its output is unknown."""
        return QuerySink(kind=SinkKind.FOREACH_BATCH, format=source)

    def again(self, sink: QuerySink) -> str:
        """Return that the function is called again, unless its notes show that it has finished the batch."""
        if sink.repeatable:
            return BY_KEY
        return (
            "its foreachBatch function is called again with a repeated batch, unless it is fenced and has "
            "finished it; rows that it does not write by key may be duplicated"
        )

    def judge(self, sink: QuerySink, case: SinkCase, findings: RestoreFindings) -> dict[int, str]:
        """Judge the batches that the function may have and receives again: all but those noted as finished."""
        if case.top is not None:
            judge_given(case, case.top, findings)
            reached = case.top if case.noted_to is None else min(case.top, case.noted_to)
            again = (max(case.batch, case.finished_to) + 1, reached)
            judge_repeated(sink, again, "given to the function again, which may have written it already", findings)
        return {}


class ForeachBatchRecord(Record):
    """One epoch's note about one query.

    :param run: Run of the epoch; 0 if unknown.
    :param finished: Highest batch that the function has finished, except a drain's batch: the next run executes other
        rows under its number.
    """

    kind: ClassVar[str] = "given-batches"

    epoch: int
    run: int = 0
    begun: int = -1
    finished: int = -1


class ForeachBatchLog:
    """Notes about one query. One epoch writes; any process reads."""

    def __init__(self, directory: WritableTree) -> None:
        self._directory = directory

    def open(self, epoch: int, run: int = 0) -> None:
        """Note that the function of this epoch keeps notes, before its first batch."""
        self._write(self._of(epoch).model_copy(update={"run": run}))

    def begin(self, epoch: int, batch: int) -> None:
        """Note that the function will be called with *batch*."""
        now = self._of(epoch)
        self._write(now.model_copy(update={"begun": max(batch, now.begun)}))

    def finish(self, epoch: int, batch: int) -> None:
        """Note that the function has finished *batch*."""
        now = self._of(epoch)
        self._write(now.model_copy(update={"finished": max(batch, now.finished)}))

    def epochs(self) -> Mapping[int, ForeachBatchRecord]:
        """Return the notes by epoch.

        :raises RecordCorruptError: A note differs from the written one.
        """
        found = (match for name in names(self._directory) if (match := _FILE.fullmatch(name)))
        return {int(match[1]): self._read(match[0]) for match in found}

    def finished_in(self, run: int) -> int:
        """Return the highest batch that the function has finished in the epochs of a run; -1 for none.

        A run continues the batches that it has planned. So each number represents one batch, which may differ from that
        of
        earlier runs.

        :raises StorageUnavailableError, RecordCorruptError: As :meth:`epochs` does.
        """
        # guard: batches-of-other-runs-are-finished
        return max((note.finished for note in self.epochs().values() if note.run == run), default=-1)

    def needless(self, *, epoch: int, floor: int) -> list[int]:
        """Return the earlier epochs whose notes are useless for every restore, ascending.

        Such an epoch called the function only for batches below the lowest restorable cut. So its note cannot show a
        batch beyond the recorded ones.

        :param epoch: The leading epoch, whose note stays.
        :param floor: Lowest batch of all cuts that can be restored.
        :raises StorageUnavailableError, RecordCorruptError: As :meth:`epochs` does.
        """
        notes = self.epochs()
        # guard: notes-that-a-restore-needs-go
        return sorted(each for each, note in notes.items() if each < epoch and note.begun < floor)

    def forget(self, epoch: int) -> None:
        """Remove the note of an epoch.

        :raises StorageUnavailableError: The outcome is unknown.
        """
        self._directory.remove(f"e{epoch}.json")

    def _of(self, epoch: int) -> ForeachBatchRecord:
        return (
            self._read(f"e{epoch}.json") if self._directory.has(f"e{epoch}.json") else ForeachBatchRecord(epoch=epoch)
        )

    def _read(self, name: str) -> ForeachBatchRecord:
        return ForeachBatchRecord.from_bytes(read(self._directory, name), source=str(self._directory / name))

    def _write(self, note: ForeachBatchRecord) -> None:
        self._directory.write(f"e{note.epoch}.json", note.to_bytes())


def summary(notes: Mapping[int, ForeachBatchRecord], turns: Mapping[int, int] | None = None) -> GivenBatches | None:
    """Return a summary of the function's batches in all epochs; ``None`` without a note.

    :param turns: First batch that a run planned anew, by epoch. From there on, the batches finished by earlier epochs
        were different ones.
    """
    if not notes:
        return None
    finished = -1
    for epoch in sorted({*notes, *(turns or {})}):
        if turns is not None and epoch in turns:
            finished = min(finished, turns[epoch] - 1)
        if epoch in notes:
            finished = max(finished, notes[epoch].finished)
    return GivenBatches(begun=max(note.begun for note in notes.values()), finished=finished)
