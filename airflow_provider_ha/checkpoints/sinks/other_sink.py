"""Sinks whose batches cannot be read: Kafka, tables of other formats, and sinks that keep no record.

Such a table skips a batch whose number it has, as Delta does. So a restore plan does not treat it as a sink that
receives every batch again: it reports that the facts are unknown, and a user accepts that by name.
"""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_ha.checkpoints.model import QuerySink, SinkKind, Verdict
from airflow_provider_ha.checkpoints.sinks.sink_type import (
    OWN_OUTPUT,
    RECORDED_CUT,
    REPEATABLE,
    RestoreFindings,
    SinkCase,
    SinkType,
)


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
