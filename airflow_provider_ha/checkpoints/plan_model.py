"""Records of a restore: the judged candidates, the effect on each query, and the plan (design, section 6).

``N`` is the last batch that counts as committed after the restore; -1 without one.
"""

from __future__ import annotations

from datetime import datetime
from enum import Enum
from typing import ClassVar

from airflow_provider_ha.checkpoints.model import BatchEntry, GivenBatches, QuerySink, Segment, SinkKind
from airflow_provider_ha.checkpoints.ownership import AdoptedCheckpoint, ClaimMode, Owner
from airflow_provider_ha.records import Model, Record


class Verdict(str, Enum):
    """The effect of a restore on the output."""

    SAFE = "SAFE"
    DUPLICATES_POSSIBLE = "DUPLICATES_POSSIBLE"
    LOSS_POSSIBLE = "LOSS_POSSIBLE"
    IMPOSSIBLE = "IMPOSSIBLE"


class Candidate(Model):
    """One checkpoint or savepoint that was looked at.

    :param source: ``checkpoint-12`` or ``savepoint-<id>``.
    :param number: Number of the checkpoint; ``None`` for a savepoint.
    :param savepoint_id: Id of the savepoint; ``None`` for a checkpoint.
    :param cut: Query -> batch.
    :param created_at: When it was taken.
    :param accepted: Whether it can be restored.
    :param file: The file that is bad, relative to the candidate's directory.
    :param reason: Why it was rejected; empty when it was accepted.
    """

    source: str
    number: int | None = None
    savepoint_id: str | None = None
    cut: dict[Segment, int]
    created_at: datetime
    accepted: bool
    file: str | None = None
    reason: str = ""


class KafkaPartition(Model):
    """A partition of a topic that a query reads: the offsets that a restore needs, and the offsets on the brokers.

    Offsets count all entries of the partition, including transaction markers; so the numbers of rows are upper bounds.

    :param topic: Its topic.
    :param partition: Its number.
    :param start: Offset of the first row after the cut.
    :param end: Offset after the last row that is read again; *start* without a replay.
    :param earliest: The first offset that the brokers still have; ``None`` when the partition is gone.
    :param latest: Offset of the next row; ``None`` when the partition is gone.
    :param replayed: Rows that are read again.
    :param gone: Rows after the cut that the brokers no longer have.
    :param unread: Rows that no recorded batch has read: they come after the replay, once.
    :param replaced: Whether the topic has been replaced by a topic of the same name, by topic id; ``None`` if the
        brokers report no id.
    """

    topic: str
    partition: int
    start: int
    end: int
    earliest: int | None
    latest: int | None
    replayed: int
    gone: int
    unread: int
    replaced: bool | None = False


class SourceInput(Model):
    """Input that a source must provide again.

    :param source: Its name, or its position if unnamed.
    :param unit: ``"files"``, ``"rows"``, ``"seconds"``, ``"versions"`` of a Delta table, ``"snapshots"`` of an Iceberg
        table; ``None`` for a source whose offsets only it understands, or whose location is not recorded.
    :param amount: Number of units; ``None`` if unknown.
    :param gone: Number of rows, files or versions after the cut that are gone from the source; ``None`` if unknown.
    :param partitions: Kafka: the partitions, once the brokers have answered.
    :param lost: For a table: reason why it cannot continue from the cut; empty if it can, or if unknown.
    """

    source: str
    unit: str | None = None
    amount: int | None = None
    gone: int | None = None
    partitions: tuple[KafkaPartition, ...] = ()
    lost: str = ""


class QueryPlan(Model):
    """The effect of a restore on one query.

    :param batch: The cut: the last batch that counts as committed; -1 for none.
    :param replay: Recorded batches N+1..., ascending and without a gap: executed again with their own boundaries.
    :param sink: The batches of the sink, as far as they were known when the plan was made.
    :param set_aside: Batches of a drain that are taken out of the file sink's log: batch -> sha256 of exactly that
        entry.
    :param input_files: Files of file sources to be read again.
    :param inputs: Inputs that the sources must provide again for the replay.
    :param sink_gone: Whether the sink is gone although it had batches.
    :param given: Batches given to the fenced ``foreachBatch`` function; ``None`` without a record.
    :param query_id: Fresh id that the query gets, for a sink that would skip the next batches; ``None`` to keep its
        own.
    """

    batch: int
    replay: tuple[BatchEntry, ...] = ()
    sink: QuerySink
    set_aside: dict[int, str] = {}
    input_files: int = 0
    inputs: tuple[SourceInput, ...] = ()
    sink_gone: bool = False
    given: GivenBatches | None = None
    query_id: str | None = None

    @property
    def discarded_to(self) -> int:
        """Highest batch of the replay whose output is discarded: the fenced function has finished it; -1 for none.

        A function that is declared repeatable gets them again, so that an output that was set back gets its rows.
        """
        if self.given is None or self.sink.repeatable:
            return -1
        return min(self.given.finished, self.batch + len(self.replay))  # guard: other-batches-of-a-number-are-finished

    @property
    def sink_progress(self) -> str:
        """Newest batch of the sink, for people."""
        if self.sink_gone:
            return "missing"
        if self.given is not None:
            return f"begun {self.given.begun}, finished {self.given.finished}"
        if self.sink.kind is not SinkKind.FILE and self.sink.table is None:
            return "not recorded by this sink"
        return f"batch {self.sink.max_batch}" if self.sink.max_batch >= 0 else "none"


class PlanFinding(Model):
    """A reason why a restore is not SAFE, and its remedy.

    :param query: The query that it concerns.
    :param verdict: The verdict that follows from it.
    :param reason: One sentence.
    :param ways_out: In the order in which to consider them.
    """

    query: str
    verdict: Verdict
    reason: str
    ways_out: tuple[str, ...] = ()


class RestorePlan(Record):
    """Effects of a restore, readable before any change.

    :param job_id: The job that gets the new run.
    :param source_job: The job that the cut belongs to.
    :param source: ``checkpoint``, ``savepoint`` or ``path``.
    :param source_id: Number of the checkpoint, id of the savepoint, or the path.
    :param directory: Key of the directory with the chosen files.
    :param verdict: The worst verdict of *findings*.
    :param reasons: Their reasons, without the ways out.
    :param queries: Query -> the effect of the restore on it.
    :param candidates: Everything that was looked at, newest first.
    :param age_seconds: Age of the chosen cut when the plan was made.
    :param created_at: When the plan was made.
    :param same_output: Whether the job continues the outputs of the source.
    :param findings: The reasons why it is not ``SAFE``.
    :param unknown: Query -> unknown facts. Judged as ``LOSS_POSSIBLE``; while there are any, no restore and exit code
        2.
    :param claim_mode: The requested claim mode.
    :param owner: Owner of the source afterwards: ``user`` or ``job``.
    :param adopted: Query -> location of its checkpoint, when Spark wrote it outside managed storage.
    """

    kind: ClassVar[str] = "restore-plan"

    job_id: str
    source_job: str
    source: str
    source_id: str
    directory: str
    verdict: Verdict
    reasons: tuple[str, ...] = ()
    queries: dict[Segment, QueryPlan]
    candidates: tuple[Candidate, ...] = ()
    age_seconds: float
    created_at: datetime
    same_output: bool = True
    findings: tuple[PlanFinding, ...] = ()
    unknown: dict[str, tuple[str, ...]] = {}
    claim_mode: ClaimMode = ClaimMode.NO_CLAIM
    owner: Owner = Owner.USER
    adopted: dict[Segment, AdoptedCheckpoint] = {}

    @property
    def name(self) -> str:
        """Source of the restore as text: ``checkpoint-12``, ``savepoint-<id>``, or its location."""
        return self.source_id if self.adopted else f"{self.source}-{self.source_id}"
