"""Notes about the batches given to a fenced ``foreachBatch`` function: one record per epoch of a job.

Spark does not record the batches that such a function has seen: a batch is planned before the call and committed after
the function has returned. So a fenced function notes each batch before and after its call, and a restore knows more
than "it may have everything that was ever planned" (``driver.context``).

Invariant: the note of a batch is on the disk before the function sees the batch. An epoch writes only its own file,
so a driver that lost the job cannot hide the batches given to its successor.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from airflow_provider_ha.checkpoints.model import GivenBatches, QuerySink, SinkKind
from airflow_provider_ha.checkpoints.sinks.other_sink import judge_given, judge_repeated
from airflow_provider_ha.checkpoints.sinks.sink_type import BY_KEY, RestoreFindings, SinkCase, SinkType
from airflow_provider_ha.checkpoints.spark.files import names, read
from airflow_provider_ha.checkpoints.spark.tree import WritableTree
from airflow_provider_ha.records import Record


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
    :param begun: Highest batch passed to the function.
    :param finished: Highest batch that the function has finished, except a drain's batch: the next run executes other
        rows under its number.
    """

    kind: ClassVar[str] = "given-batches"

    epoch: int
    run: int = 0
    begun: int = -1
    finished: int = -1


class ForeachBatchLog:
    """Notes about one query. One epoch writes; any process reads.

    :param directory: Directory of the notes (``JobKeys.given``).
    """

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

        :raises StorageUnavailableError: They could not be read.
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
