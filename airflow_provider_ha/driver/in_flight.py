"""The batches that a recovery executes again, judged by the rules of a restore.

Spark executes a batch without an input file that is gone, and commits it: the only word is a warning in its log. So a
recovery looks at the input of what was in flight, and at the logs of the file sinks, before it forks the lost
directory. Where rows may be lost, the run waits for its user.

Invariant: what could not be read decides nothing here: Spark meets it itself, and the recovery goes on as before.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_provider_ha.checkpoints.connectors.file_sink import FileSink
from airflow_provider_ha.checkpoints.connectors.file_sink_log import is_seeding
from airflow_provider_ha.checkpoints.connectors.input_files import judge_files, look_for
from airflow_provider_ha.checkpoints.connectors.other_sink import DEBUG_FORMATS
from airflow_provider_ha.checkpoints.connectors.places import Reach
from airflow_provider_ha.checkpoints.connectors.sink_connector import SinkCase
from airflow_provider_ha.checkpoints.format.layout import progress, queries
from airflow_provider_ha.checkpoints.model import QuerySink, SinkKind
from airflow_provider_ha.checkpoints.restore.judgement import Judgement
from airflow_provider_ha.checkpoints.trees.files import names
from airflow_provider_ha.checkpoints.trees.tree import Tree
from airflow_provider_ha.checkpoints.working.batch_log import readable
from airflow_provider_ha.checkpoints.working.started_queries import read_started
from airflow_provider_ha.errors import DecisionNeededError, StorageUnavailableError
from airflow_provider_ha.jobs.model import Generation, JobGraph, Run


log = logging.getLogger(__name__)

IGNORE_MISSING = "spark.sql.files.ignoreMissingFiles"
"""Spark's own consent to go on without input files that are gone."""


@dataclass(frozen=True, slots=True)
class InFlight:
    """What a recovery executes again by consent, although rows are lost with it.

    :param lossy: Query -> batch that is executed without input files that are gone.
    :param message: The same, for people; empty for nothing.
    """

    lossy: Mapping[str, int] = field(default_factory=dict)
    message: str = ""


@dataclass(frozen=True, slots=True)
class InFlightJudge:
    """Judges the recovery of a lost directory.

    :param reach: How the file systems of outputs, and of input files, are reached.
    :param accepted: Whether the request of this attempt accepts the loss.
    """

    run: Run
    graph: JobGraph
    reach: Reach
    accepted: bool

    def judge(self, lost: Tree, previous: Generation) -> InFlight:
        """Return what is executed again by consent.

        :param lost: The lost directory, fenced.
        :param previous: Its record.
        :raises DecisionNeededError: Input is gone, or the log of a file sink is not whole, and no user has accepted it.
        :raises RecordCorruptError: Which queries the run has started cannot be read.
        """
        started = read_started(lost)
        sinks = started.sinks if started is not None else {}
        consent = self.accepted or self.graph.conf.get(IGNORE_MISSING, "").lower() == "true"
        lossy, gone, other = dict[str, int](), list[str](), list[str]()
        for query in (name for name in queries(lost) if not _is_for_a_look(sinks.get(name))):
            inputs = self._inputs(query, lost / query)
            if inputs.findings:
                batch = progress(lost / query).planned
                if consent or previous.lossy.get(query) == batch:
                    lossy[query] = batch
                gone += [] if query in lossy else [finding.reason for finding in inputs.findings]
                log.warning("%s", "; ".join(finding.reason for finding in inputs.findings))
            other += [finding.reason for finding in self._sink(query, lost / query, sinks.get(query)).findings]
        if gone or other:  # guard: batches-in-flight-are-executed-without-their-input
            raise self._undecided(gone, other)
        batches = ", ".join(f"batch {batch} of {query}" for query, batch in lossy.items())
        return InFlight(lossy, f"{batches} is executed without input files that are gone" if lossy else "")

    def _inputs(self, query: str, directory: Tree) -> Judgement:
        judgement = Judgement(query)
        entries = tuple(readable(directory, after=progress(directory).committed))
        found = look_for(entries, self.reach)
        if found.error is not None:
            log.warning("whether input of query %s is gone is not known: %s", query, found.error)
        judge_files(found.missing, entries, judgement, found.replaced)
        return judgement

    def _sink(self, query: str, directory: Tree, sink: QuerySink | None) -> Judgement:
        judgement = Judgement(query)
        if sink is None or sink.kind is not SinkKind.FILE or sink.path is None:
            return judgement
        output, at = FileSink(sink.path, self.reach), progress(directory)
        try:
            if not is_seeding(names(output.record())):
                case = SinkCase(at.committed, output.state(at.committed, None), top=max(at.planned, at.committed))
                output.judge_record(case, judgement)
        except StorageUnavailableError as error:
            log.warning("whether the log of query %s is whole is not known: %s", query, error)
        return judgement

    def _undecided(self, gone: list[str], other: list[str]) -> DecisionNeededError:
        job = self.graph.job_id
        again = f"`spark-ha restore {job} --if-lost recover --accept-verdict LOSS_POSSIBLE`"
        steps = [f"put the file back as it was, or accept that its rows are lost, and {again} goes on"] if gone else []
        steps += [f"put the log back, and {again} looks again"] if other else []
        return DecisionNeededError(
            f"run {self.run.number} of job {job!r} waits for a decision, because rows may be lost: "
            f"{'; '.join([*gone, *other])}",
            next_step=f"{steps[0][0].upper()}{'; '.join(steps)[1:]}",
        )


def _is_for_a_look(sink: QuerySink | None) -> bool:
    """Whether a query is for a look at rows only: it never keeps its job from being recovered."""
    return sink is not None and (sink.format or "").lower() in DEBUG_FORMATS
