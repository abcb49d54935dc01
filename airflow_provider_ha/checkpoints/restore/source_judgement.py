"""Whether the sources still have what a restore needs of them."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_ha.checkpoints.connectors.inputs import forgets
from airflow_provider_ha.checkpoints.model import BatchEntry, KafkaPartition, SourceInput, Verdict
from airflow_provider_ha.checkpoints.restore.judgement import Judgement


_NAMED = 3  # partitions that a reason names; the plan has them all
_KAFKA_WAYS = (
    "restore a newer cut, if there is one: it needs fewer of the old rows",
    "accept LOSS_POSSIBLE by name; unless the reader has failOnDataLoss=false, Spark fails instead of going on without",
)


def judge_files(missing: Mapping[int, tuple[str, ...]], replay: tuple[BatchEntry, ...], judgement: Judgement) -> None:
    """Judge file sources: what has to be replayed has to be there."""
    for entry in replay:
        gone = missing.get(entry.batch)
        if gone:
            judgement.add(
                Verdict.IMPOSSIBLE,  # guard: replays-without-their-input
                f"batch {entry.batch} has to be replayed, but its input {gone[0]} is gone",
                "put the file back where it was, unchanged",
                "restore a newer cut: what it has behind it is not read again",
                "restore as another job with its own output: nothing is replayed there",
            )
            return


def judge_inputs(inputs: tuple[SourceInput, ...], judgement: Judgement) -> None:
    """Judge Kafka, and sources that forget."""
    for source in inputs:
        if source.partitions:
            _judge_kafka(source, judgement)
        elif forgets(source):
            judgement.add(
                Verdict.LOSS_POSSIBLE,
                f"source {source.source} is a socket or lives in memory: it cannot give the rows after the cut again",
                "accept LOSS_POSSIBLE by name",
                "let the script read from a source that keeps its rows: Kafka, or files",
            )


def _judge_kafka(source: SourceInput, judgement: Judgement) -> None:
    lost = [each for each in source.partitions if each.earliest is None]
    if lost:
        rows = sum(each.gone for each in lost)
        judgement.add(
            Verdict.LOSS_POSSIBLE,
            f"source {source.source}: {_names(lost)} {_are(lost)} gone, with {rows} rows that were read after the cut "
            "and all unread rows",
            *_KAFKA_WAYS,
        )
    shorter = [each for each in source.partitions if each.latest is not None and each.latest < each.end]
    if shorter:
        judgement.add(
            Verdict.LOSS_POSSIBLE,
            f"source {source.source}: {_names(shorter)} {_ends(shorter)} before the offsets that were read: made again "
            "under its old name, so other rows stand there now",
            "let the script read the new topic with a new query: start it fresh",
            *_KAFKA_WAYS,
        )
    expired = [each for each in source.partitions if each.gone and each not in lost and each not in shorter]
    if expired:
        rows = sum(each.gone for each in expired)
        judgement.add(
            Verdict.LOSS_POSSIBLE,
            f"source {source.source}: {rows} rows after the cut were removed by retention, of {_names(expired)}",
            *_KAFKA_WAYS,
        )


def _names(partitions: list[KafkaPartition]) -> str:
    told = ", ".join(f"{each.topic}-{each.partition}" for each in partitions[:_NAMED])
    more = len(partitions) - _NAMED
    return f"{told} and {more} more" if more > 0 else told


def _are(partitions: list[KafkaPartition]) -> str:
    return "are" if len(partitions) > 1 else "is"


def _ends(partitions: list[KafkaPartition]) -> str:
    return "end" if len(partitions) > 1 else "ends"
