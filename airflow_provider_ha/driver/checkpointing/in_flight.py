"""The batches that a recovery executes again, judged by the rules of a restore.

Spark executes a batch without its missing input file, and commits it, with only a warning in its log. In a recreated
Kafka topic it continues reading at the old offset. So a recovery checks the sources of batches after the last committed
one, and the logs of the file sinks, before it forks the lost directory. Where rows may be lost, the run waits for its
user. A reader with ``failOnDataLoss=false``, and a job that ignores missing files, has consented.

Invariant: unreadable facts decide nothing here: Spark meets the error itself, and the recovery continues as before.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from airflow_provider_ha.checkpoints.areas.working_records import StartedQueries, read_started, readable
from airflow_provider_ha.checkpoints.model import BatchEntry, QueryCut, QuerySink, SinkKind
from airflow_provider_ha.checkpoints.plan_model import SourceInput, Verdict
from airflow_provider_ha.checkpoints.restore.facts import ExternalQueries, ExternalState, look_at_sources
from airflow_provider_ha.checkpoints.restore.plan import judge_sources
from airflow_provider_ha.checkpoints.sinks.file_sink import FileSink
from airflow_provider_ha.checkpoints.sinks.file_sink_log import is_seeding
from airflow_provider_ha.checkpoints.sinks.sink_type import RestoreFindings, SinkCase
from airflow_provider_ha.checkpoints.sinks.unread_sinks import DEBUG_FORMATS
from airflow_provider_ha.checkpoints.sources.input_files import look_for
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import progress, queries
from airflow_provider_ha.checkpoints.spark.files import names
from airflow_provider_ha.checkpoints.spark.places import StorageAccess
from airflow_provider_ha.checkpoints.spark.tree import Tree
from airflow_provider_ha.driver.checkpointing.fallback import ask_brokers
from airflow_provider_ha.errors import DecisionNeededError, RestoreRefusedError, StorageUnavailableError
from airflow_provider_ha.jobs.job_graph import JobGraph
from airflow_provider_ha.jobs.model import Generation, Run
from airflow_provider_ha.jobs.runs.submissions import Failure


log = logging.getLogger(__name__)

IGNORE_MISSING = "spark.sql.files.ignoreMissingFiles"
"""Spark's own consent to continue without missing input files."""
BROKER_SECONDS = 5.0
"""Seconds that a recovery waits for an answer from Kafka."""


@dataclass(frozen=True, slots=True)
class InFlightBatches:
    """The batches that a recovery executes again by consent, although rows are lost.

    :param lossy: Query -> its highest planned batch: it continues from there without the missing input.
    :param message: The same, for people; empty for no loss.
    """

    lossy: Mapping[str, int] = field(default_factory=dict)
    message: str = ""


@dataclass(slots=True)
class _Losses(RestoreFindings):
    """The input that sources are known to lack. Undetermined facts decide nothing."""

    reasons: list[str] = field(default_factory=list)

    def add(self, verdict: Verdict, reason: str, *ways_out: str) -> None:  # noqa: ARG002  # all are losses
        self.reasons.append(f"{self.query}: {reason}")

    def add_unknown(self, reason: str, *ways_out: str) -> None:  # noqa: ARG002  # the user has nothing to decide
        log.warning("query %s continues; whether its input is there is unknown: %s", self.query, reason)


@dataclass(frozen=True, slots=True)
class InFlightJudge:
    """Judges the recovery of a lost directory.

    :param reach: Access to the file systems of outputs and of input files.
    :param accepted: Whether the request of this attempt accepts the loss.
    :param recorded: Query -> batches of the run's newest checkpoint, which are more detailed than the directory's.
    :param misfit: End of the previous attempt if Spark refused the checkpoint for the query: the query may read another
        source, without the rows. ``None`` for any other end.
    """

    run: Run
    graph: JobGraph
    reach: StorageAccess
    accepted: bool
    recorded: Mapping[str, Sequence[BatchEntry]] = field(default_factory=dict)
    misfit: Failure | None = None

    def judge(self, lost: Tree, previous: Generation) -> InFlightBatches:
        """Return the batches executed again by consent.

        :param lost: The lost directory, fenced.
        :param previous: Its record.
        :raises DecisionNeededError: Input is gone, or the log of a file sink is incomplete, and the user has not
            accepted it.
        :raises RestoreRefusedError: The same, and Spark has refused the checkpoint for the query: no input helps.
        :raises RecordCorruptError: The record of the started queries cannot be read.
        """
        started = read_started(lost) or StartedQueries()
        sinks = started.sinks
        lossy, gone, other = dict[str, int](), list[str](), list[str]()
        for query in (name for name in queries(lost) if not _is_for_a_look(sinks.get(name))):
            every, refused = self._inputs(query, lost / query, sinks.get(query), started)
            if every:
                batch = progress(lost / query).planned
                if self.accepted or not refused or previous.lossy.get(query) == batch:
                    lossy[query] = batch
                gone += [] if query in lossy else refused
                log.warning("%s", "; ".join(every))
            other += [finding.reason for finding in self._sink(query, lost / query, sinks.get(query)).findings]
        if (gone or other) and self.misfit is not None:
            said = f"{self.misfit.error}, and {'; '.join([*gone, *other])}"
            raise RestoreRefusedError(said, next_step=self.misfit.misfit)
        if gone or other:
            raise self._undecided(gone, other)
        batches = ", ".join(f"batch {batch} of {query}" for query, batch in lossy.items())
        return InFlightBatches(lossy, f"the run continues from {batches} without its missing input" if lossy else "")

    def _inputs(
        self, query: str, directory: Tree, sink: QuerySink | None, started: StartedQueries
    ) -> tuple[list[str], list[str]]:
        """Return the missing input, and the part of it that the job and its readers do not allow for."""
        at, noted = progress(directory), started.sources(query)
        known = {entry.batch: entry for entry in self.recorded.get(query, ())}
        shown = readable(directory, after=at.committed - 1)
        entries = tuple(entry.measured_as(known.get(entry.batch)) for entry in shown)
        external = ExternalQueries(
            ask_brokers(self.graph.options, lambda name: started.sources(name).brokers, BROKER_SECONDS),
            partial(look_for, reach=self.reach),
        )
        cut = QueryCut(batch=at.committed, sink=sink or QuerySink(kind=SinkKind.OTHER), sources=noted)
        around = look_at_sources(query, directory, cut=cut, entries=entries, external=external, reach=self.reach)
        for each in around.unknown:
            log.warning("query %s continues; whether its input is there is unknown: %s", query, each.reason)
        own = next((entry for entry in entries if entry.batch == at.committed), None)
        # Spark itself reads on from the cut where rows reach the sink before their boundaries are written.
        replay = () if cut.sink.unplanned else tuple(entry for entry in entries if entry.batch > at.committed)

        def losses(around: ExternalState, tolerant: Collection[str]) -> list[str]:
            found = _Losses(query)
            judge_sources(
                noted, around, own, replay, found, is_due=lambda each: _is_due(each) and each.source not in tolerant
            )
            return found.reasons

        every = losses(around, ())
        if not every:
            return [], []
        ignores = self.graph.conf.get(IGNORE_MISSING, "").lower() == "true"
        return every, losses(replace(around, missing={}) if ignores else around, noted.tolerant)

    def _sink(self, query: str, directory: Tree, sink: QuerySink | None) -> RestoreFindings:
        judgement = RestoreFindings(query)
        if sink is None or sink.kind is not SinkKind.FILE or sink.path is None:
            return judgement
        output, at = FileSink(sink.path, self.reach), progress(directory)
        try:
            if not is_seeding(names(output.record())):
                case = SinkCase(at.committed, output.state(at.committed, None), top=max(at.planned, at.committed))
                output.judge_record(case, judgement)
        except StorageUnavailableError as error:
            log.warning("it is unknown whether the log of query %s is complete: %s", query, error)
        return judgement

    def _undecided(self, gone: list[str], other: list[str]) -> DecisionNeededError:
        job = self.graph.job_id
        again = f"`spark-ha job restore {job} --if-lost recover --accept-verdicts LOSS_POSSIBLE`"
        steps = []
        if gone:
            steps.append(
                f"put the input back as it was, or accept that its rows are lost, and {again} continues; Spark itself "
                "refuses some losses, unless the reader has failOnDataLoss=false"
            )
        steps += [f"put the log back, and {again} checks again"] if other else []
        return DecisionNeededError(
            f"run {self.run.number} of job {job!r} waits for a decision, because rows may be lost: "
            f"{'; '.join([*gone, *other])}",
            next_step=f"{steps[0][0].upper()}{'; '.join(steps)[1:]}",
        )


def _is_due(source: SourceInput) -> bool:
    """Return whether a source has to deliver rows again: a socket's unread rows are gone with every driver."""
    return source.unit != "rows" or source.amount != 0 or bool(source.partitions)


def _is_for_a_look(sink: QuerySink | None) -> bool:
    """Return whether a query only displays rows: it never prevents its job from being recovered."""
    return sink is not None and (sink.format or "").lower() in DEBUG_FORMATS
