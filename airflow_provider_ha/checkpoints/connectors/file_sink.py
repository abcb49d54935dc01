"""The connector of Spark's file sinks (parquet, orc, json, csv, text), which keep a log in their output directory.

Invariant: Spark skips a batch that is in the log without executing its plan. So what is in it and has no recorded
boundaries may hide rows, and is never called safe.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_ha.checkpoints.connectors.file_sink_log import LOG, FileSinkLog, local_path
from airflow_provider_ha.checkpoints.connectors.places import sink_log
from airflow_provider_ha.checkpoints.connectors.sink_connector import Findings, SinkCase, SinkState
from airflow_provider_ha.checkpoints.format.compactible_log import CompactibleLog, entry_names
from airflow_provider_ha.checkpoints.model import Verdict
from airflow_provider_ha.checkpoints.trees.files import names, read
from airflow_provider_ha.checkpoints.trees.tree import Tree
from airflow_provider_ha.errors import CheckpointCorruptError, ConfigurationError


OWN_OUTPUT = "restore as another job, with its own output"
RECORDED_CUT = "restore a cut after which every batch is recorded; the candidates name what there is"


@dataclass(frozen=True, slots=True)
class FileSink:
    """One output directory (:class:`~airflow_provider_ha.checkpoints.connectors.sink_connector.SinkConnector`).

    :param output: Path or URI, as a ``QuerySink`` has it; ``None`` while the script has not named it: then it has
        nothing, and nothing is missing.
    """

    output: str | None

    def reached(self) -> int:
        """Return the highest batch in the log; -1 for none."""
        return max(self._entries(), default=-1)

    def digest(self, batch: int) -> str | None:
        """Return the sha256 of a batch's entry."""
        name = self._entries().get(batch)
        return None if name is None else self._digest(name)

    def state(self, batch: int, kept: Tree | None) -> SinkState:
        """Return what the log has."""
        if self.output is None:
            return SinkState()
        entries = self._entries()
        return SinkState(
            reached=max(entries, default=-1),
            digests={number: self._digest(name) for number, name in entries.items() if number > batch},
            gone=batch >= 0 and not sink_log(self.output).is_directory(),
            log_kept=kept is not None and _is_whole(kept, batch),
        )

    def closure(self, batch: int) -> Iterator[tuple[Path, str]]:
        """Yield the entries since the last compact one, with their hidden checksums."""
        log = self._log()
        for name in log.closure_files(batch):
            yield log.path / name, str(name)

    def set_aside(self, batch: int, digest: str) -> bool:
        """Rename an entry, so that readers no longer see its files."""
        return self._log().set_aside(batch, digest)

    def seed(self, batch: int, mode: str, source: Tree) -> None:
        """Make the log that Spark looks for at its next compaction."""
        FileSinkLog.seed(self._log().path, batch, mode, source)

    def judge(self, case: SinkCase, findings: Findings) -> dict[int, str]:
        """Judge what the log has beyond the recorded batches, and what it lacks."""
        if self.output is None:  # guard: outputs-to-come-are-missed
            return {}  # restored from another job, and stopped before its script named its own output
        if case.top is None:
            _judge_another_output(case, findings)
            return {}
        if case.state.gone:
            self._judge_missing_output(case, findings)
            return {}
        return _judge_log(case, case.top, findings)

    def _judge_missing_output(self, case: SinkCase, findings: Findings) -> None:
        if not case.state.log_kept:
            findings.add(
                Verdict.IMPOSSIBLE,
                f"the log of the file sink {self.output} is gone and none is kept with the cut: Spark dies at its next "
                "compaction",
                "put the output directory back as it was, its log included",
                "restore a checkpoint that was taken while the output was there",
            )
            return
        findings.add(
            Verdict.LOSS_POSSIBLE,
            f"the file sink {self.output} is gone, and with it what was written up to batch {case.batch}",
            "put the output directory back as it was, its log included",
            "accept LOSS_POSSIBLE by name: the directory gets a log without files, and holds what comes after the cut",
            OWN_OUTPUT,
        )

    def _entries(self) -> dict[int, str]:
        return entry_names(names(sink_log(self.output))) if self.output is not None else {}

    def _digest(self, name: str) -> str:
        return hashlib.sha256(read(sink_log(self._named()), name)).hexdigest()

    def _log(self) -> FileSinkLog:
        return FileSinkLog(local_path(self._named()))

    def _named(self) -> str:
        if self.output is None:
            raise ConfigurationError(
                "the output of a file sink is not known", next_step="Wait until the script has named it"
            )
        return self.output


def _judge_another_output(case: SinkCase, findings: Findings) -> None:
    if case.batch >= 0 and not case.state.log_kept:
        findings.add(
            Verdict.IMPOSSIBLE,
            f"the sink's log up to batch {case.batch} is not kept with the cut",
            "restore a cut that was taken while the sink had its log",
            "restore the job under its own id: then the log of its output is used",
        )


def _judge_log(case: SinkCase, top: int, findings: Findings) -> dict[int, str]:
    set_aside: dict[int, str] = {}
    reached, digests = case.state.reached, case.state.digests
    digest = digests.get(reached)
    if case.drained is not None and digest and case.drained == (reached, digest):  # guard: any-entry-is-the-drains
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
    if reached < case.batch:
        findings.add(
            Verdict.LOSS_POSSIBLE,
            f"the file sink has batches up to {reached} only, but the cut is at {case.batch}",
            "put the output directory back as it was, its log included",
            f"restore a cut at batch {reached} or before",
            OWN_OUTPUT,
        )
    return set_aside


def _is_whole(directory: Tree, batch: int) -> bool:
    try:
        CompactibleLog(directory, LOG).closure(batch)
    except CheckpointCorruptError:
        return False
    return True
