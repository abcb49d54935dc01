"""Sources with counters as offsets: rate generates the same rows again; sockets and the driver's memory cannot."""

from __future__ import annotations

from airflow_provider_ha.checkpoints.connectors.sink_connector import Findings
from airflow_provider_ha.checkpoints.connectors.source_type import Reading, SourceType
from airflow_provider_ha.checkpoints.model import SourceInput, Verdict


class CountedSource(SourceType):
    """A source whose offset is a number of seconds or rows."""

    label = "`rate`, sockets, memory"
    asked = "when it began, as the checkpoint has it: `rate` makes the same rows again"
    silence = "`LOSS_POSSIBLE`: what keeps no such note has its rows in memory only"

    def takes(self, reading: Reading) -> bool:
        """Match a number, with the first offsets; without these it could be any source's."""
        return reading.end is not None and reading.end.isdecimal() and reading.facts.initial is not None

    def input(self, reading: Reading) -> SourceInput:
        """Return how far it has counted since the cut."""
        start = int(reading.before) if reading.before is not None and reading.before.isdecimal() else 0
        amount = max(0, int(reading.end or 0) - start) if reading.is_replayed else 0
        # A generator notes its start, and generates the same rows again. A source without such a note has only memory.
        if reading.name in (reading.facts.initial or {}):
            return SourceInput(source=reading.name, unit="seconds", amount=amount, gone=0)
        return SourceInput(source=reading.name, unit="rows", amount=amount, gone=amount)

    def judges(self, source: SourceInput) -> bool:
        """Match a source that cannot provide its rows again: all its rows are gone."""
        return (
            source.unit == "rows" and not source.partitions and source.gone is not None and source.gone == source.amount
        )

    def judge(self, source: SourceInput, findings: Findings) -> None:
        """Note that its rows are gone."""
        findings.add(
            Verdict.LOSS_POSSIBLE,
            f"source {source.source} is a socket or lives in memory: it cannot give the rows after the cut again",
            "accept LOSS_POSSIBLE by name",
            "let the script read from a source that keeps its rows: Kafka, or files",
        )
