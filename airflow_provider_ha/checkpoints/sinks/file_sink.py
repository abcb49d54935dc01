"""Connector of Spark's file sinks (parquet, orc, json, csv, text), which keep a log in their output directory.

Invariant: Spark skips a batch that is in the log without executing its plan. So a batch in the log without recorded
boundaries may hide rows, and is never called safe.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from airflow_provider_ha.checkpoints.model import QuerySink, SinkKind
from airflow_provider_ha.checkpoints.plan_model import Verdict
from airflow_provider_ha.checkpoints.sinks.file_sink_log import (
    FORMATS,
    LOG,
    FileSinkLog,
    StoredSinkLog,
    damaged_entries,
    files_of_entry,
    is_seeding,
    sink_log,
)
from airflow_provider_ha.checkpoints.sinks.sink_type import (
    OWN_OUTPUT,
    RECORDED_CUT,
    SKIPS,
    RestoreFindings,
    SinkCase,
    SinkState,
    SinkType,
)
from airflow_provider_ha.checkpoints.spark.files import names, read
from airflow_provider_ha.checkpoints.spark.metadata_log import CompactibleLog, entry_names
from airflow_provider_ha.checkpoints.spark.places import LOCAL, StorageAccess, is_local, output_place, place_of
from airflow_provider_ha.checkpoints.spark.tree import Tree
from airflow_provider_ha.errors import CheckpointCorruptError, ConfigurationError
from airflow_provider_ha.uris import split


class FileSinks(SinkType):
    """All of Spark's file formats."""

    def takes(self, source: str) -> bool:
        """Match every file format, in any case."""
        return source.lower() in FORMATS

    def owns(self, sink: QuerySink) -> bool:
        """Match any format."""
        return sink.kind is SinkKind.FILE

    def sink(self, source: str, path: str | None) -> QuerySink:
        """Return the output directory in its normal form."""
        return QuerySink(kind=SinkKind.FILE, format=source, path=output_place(path) if path else None)

    def named(self, said: str, reach: StorageAccess) -> QuerySink | None:
        """Return the sink of a named output directory with its highest batch; a name with a slash is a directory."""
        if "/" in said:
            path = output_place(said)
            return QuerySink(kind=SinkKind.FILE, path=path, max_batch=FileSink(path, reach).reached())
        if self.takes(said):
            raise ConfigurationError(
                f"a file sink is named by its output directory, not by its format {said!r}",
                next_step="Name the directory, with a slash in it",
            )
        return None

    def name(self, source: str, path: str | None) -> str | None:  # noqa: ARG002  # the directory determines it
        """Return the output directory; ``None`` for a relative path or another file system."""
        place = split(path or "")
        return place.path if place.scheme in LOCAL and place.path.startswith("/") else None

    def identity(self, options: Mapping[str, str]) -> str | None:
        """Return the output directory in its normal form."""
        return place_of(options)

    def connector(self, sink: QuerySink, reach: StorageAccess) -> FileSink:
        """Return the log of the output."""
        return FileSink(sink.path, reach)

    def again(self, sink: QuerySink) -> str:  # noqa: ARG002  # the same for all formats
        """Return that the sink skips batches it has."""
        return SKIPS

    def remembers_unseen(self, sink: QuerySink) -> bool:  # noqa: ARG002  # the same for all formats
        """Return ``False``: the driver reads its log."""
        return False

    def judge(self, sink: QuerySink, case: SinkCase, findings: RestoreFindings) -> dict[int, str]:
        """Judge by the log."""
        return FileSink(sink.path).judge(case, findings)


@dataclass(frozen=True, slots=True)
class FileSink:
    """One output directory (:class:`~airflow_provider_ha.checkpoints.sinks.sink_type.SinkConnector`).

    :param output: Path or URI, as in a ``QuerySink``; ``None`` until the script names it: then it is empty and
        complete.
    """

    output: str | None
    reach: StorageAccess = field(default_factory=StorageAccess)

    @property
    def needs_proof(self) -> bool:
        """Return whether the name of a set-aside entry is free again: a delayed request could take it."""
        return self.output is not None and not is_local(output_place(self.output))

    def reached(self) -> int:
        """Return the highest batch in the log; -1 for none."""
        return max(self._entries(), default=-1)

    def digest(self, batch: int) -> str | None:
        """Return the sha256 of a batch's entry."""
        name = self._entries().get(batch)
        return None if name is None else self._digest(name)

    def state(self, batch: int, kept: Tree | None) -> SinkState:
        """Return the state of the log."""
        if self.output is None:
            return SinkState()
        entries = self._entries()
        return SinkState(
            reached=max(entries, default=-1),
            digests={number: self._digest(name) for number, name in entries.items() if number > batch},
            gone=batch >= 0 and not sink_log(self.output, self.reach).is_directory(),
            log_kept=kept is not None and _is_whole(kept, batch),
            damaged=damaged_entries(self.record()) if entries else {},
        )

    def record(self) -> Tree:
        """Return the log."""
        return sink_log(self._named(), self.reach)

    def set_aside(self, batch: int, digest: str) -> bool:
        """Hide an entry, so that readers no longer see its files."""
        return self._log().set_aside(batch, digest)

    def seed(self, batch: int, mode: str, source: Tree) -> None:
        """Create the log that Spark looks for at its next compaction."""
        self._log().seed(batch, mode, source)

    def judge(self, case: SinkCase, findings: RestoreFindings) -> dict[int, str]:
        """Judge the log's batches beyond the recorded ones, and its missing batches."""
        if self.output is None:
            return {}  # restored from another job, and stopped before its script named its output
        if case.top is None:
            _judge_another_output(case, findings)
            return {}
        if case.state.gone:
            self.judge_record(case, findings)
            return {}
        set_aside = _judge_log(case, case.top, findings)
        self.judge_record(case, findings)
        if set_aside and self.needs_proof and not case.writers_dead:  # guard: entries-of-the-living-are-set-aside
            findings.add(
                Verdict.LOSS_POSSIBLE,
                f"entry {max(set_aside)} of the file sink {self.output} is set aside, and a driver that is not proven "
                "dead may write it again: then the next batch of that number is skipped",
                "wait until the end of the last driver is recorded, then plan again",
                "check that its processes have ended, then accept LOSS_POSSIBLE by name",
                OWN_OUTPUT,
            )
        return set_aside

    def judge_record(self, case: SinkCase, findings: RestoreFindings) -> None:
        """Judge the missing batches of the log up to *top*; batches set aside above it are no longer read."""
        if case.state.gone:
            self._judge_missing_output(case, findings)
            return
        if case.state.reached < case.batch:
            findings.add(
                Verdict.LOSS_POSSIBLE,
                f"the file sink has batches up to {case.state.reached} only, but the cut is at {case.batch}",
                "put the unchanged output directory back, with its log",
                f"restore a cut at batch {case.state.reached} or before",
                OWN_OUTPUT,
            )
        damaged = {batch: found for batch, found in case.state.damaged.items() if case.top is None or batch <= case.top}
        if not damaged:
            return
        kept = case.state.log_kept and max(damaged) <= case.batch
        where = "the cut keeps" if kept else "a copy of the output has, or a checkpoint of the job keeps"
        findings.add(
            Verdict.IMPOSSIBLE,  # guard: holes-in-the-log-of-a-sink-are-safe
            f"the log of the file sink {self.output} is not whole: {'; '.join(damaged.values())}. Spark dies at its "
            "next compaction, and readers miss these rows",
            f"put these entries back into {LOG}: {where} them (sinks/<query>/{LOG})",
            OWN_OUTPUT,
        )

    def _judge_missing_output(self, case: SinkCase, findings: RestoreFindings) -> None:
        if not case.state.log_kept:
            findings.add(
                Verdict.IMPOSSIBLE,
                f"the log of the file sink {self.output} is gone and none is kept with the cut: Spark dies at its next "
                "compaction",
                "put the unchanged output directory back, with its log",
                "restore a checkpoint that was taken while the output was there",
            )
            return
        findings.add(
            Verdict.LOSS_POSSIBLE,
            f"the file sink {self.output} is lost, and with it the rows up to batch {case.batch}",
            "put the unchanged output directory back, with its log",
            "accept LOSS_POSSIBLE by name: it receives a log without files, and holds only the rows after the cut",
            OWN_OUTPUT,
        )

    def _entries(self) -> dict[int, str]:
        found = names(self.record()) if self.output is not None else []
        return {} if is_seeding(found) else entry_names(found)

    def _digest(self, name: str) -> str:
        return hashlib.sha256(read(self.record(), name)).hexdigest()

    def _log(self) -> FileSinkLog | StoredSinkLog:
        place = output_place(self._named())
        return FileSinkLog(Path(place)) if is_local(place) else StoredSinkLog(self.reach.files(place))

    def _named(self) -> str:
        if self.output is None:
            raise ConfigurationError(
                "the output of a file sink is unknown", next_step="Wait until the script has named it"
            )
        return self.output


def _judge_another_output(case: SinkCase, findings: RestoreFindings) -> None:
    if case.batch >= 0 and not case.state.log_kept:
        findings.add(
            Verdict.IMPOSSIBLE,
            f"the sink's log up to batch {case.batch} is not kept with the cut",
            "restore a cut that was taken while the sink had its log",
            "restore the job under its own id: then the log of its output is used",
        )


def _judge_log(case: SinkCase, top: int, findings: RestoreFindings) -> dict[int, str]:
    set_aside: dict[int, str] = {}
    reached, digests = case.state.reached, case.state.digests
    digest = digests.get(reached)
    if case.drained is not None and digest and case.drained == (reached, digest):
        set_aside[reached] = digest
        reached -= 1
    if reached > top:
        findings.add(
            Verdict.LOSS_POSSIBLE,
            f"the file sink has batches up to {reached}, but boundaries are recorded up to {top} only",
            RECORDED_CUT,
            f"accept LOSS_POSSIBLE by name: entries {top + 1} to {reached} of its log are set aside, so that "
            "readers no longer see these files, and the batches are planned and written afresh",
            OWN_OUTPUT,
        )
        # A restore that accepts this plans and writes these batches afresh instead of skipping them.
        lost = range(top + 1, reached + 1)
        set_aside |= {batch: digests[batch] for batch in lost if batch in digests}
    return set_aside


def _is_whole(directory: Tree, batch: int) -> bool:
    log = CompactibleLog(directory, LOG)
    try:
        for entry in range(max(log.newest_compact(batch), 0), batch + 1):
            files_of_entry(directory, log, entry)
    except CheckpointCorruptError:
        return False
    return True
