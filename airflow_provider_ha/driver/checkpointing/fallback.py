"""Continuation from the newest good checkpoint, when the last working directory of a run cannot be continued.

Invariants:

- Only a plan with the verdict SAFE is followed: every batch that a sink has is executed again with its original
  boundaries, or not at all. All other plans need a decision of the user (contract: no restart loses or repeats rows
  silently).
- Unreadable facts decide nothing: their error is raised unchanged, and the next attempt reads again.
- The past of a run consists only of its starting point and its checkpoints. Batches of other runs may have other
  numbers.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from airflow_provider_ha.checkpoints.areas.work_area import WorkArea
from airflow_provider_ha.checkpoints.areas.working_records import read_started
from airflow_provider_ha.checkpoints.plan_model import RestorePlan, Verdict
from airflow_provider_ha.checkpoints.restore.facts import (
    AskKafka,
    ExternalQueries,
    RestoreCase,
    RestoreFacts,
    gather_facts,
)
from airflow_provider_ha.checkpoints.restore.plan import RestoreChoices, not_accepted, plan_restore
from airflow_provider_ha.checkpoints.restore.plan_execution import planned_replays
from airflow_provider_ha.checkpoints.restore.query_records import LastDirectory, RunStart
from airflow_provider_ha.checkpoints.restore.select import RestoreSource, Selection, select
from airflow_provider_ha.checkpoints.sinks.unread_sinks import DEBUG_FORMATS
from airflow_provider_ha.checkpoints.sources.input_files import look_for
from airflow_provider_ha.checkpoints.sources.kafka_offsets import (
    ANSWER_SECONDS,
    Partition,
    PartitionOffsets,
    held_offsets,
)
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import queries
from airflow_provider_ha.checkpoints.spark.places import StorageAccess
from airflow_provider_ha.checkpoints.store.checkpoint_store import CheckpointStore
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_store import SavepointStore
from airflow_provider_ha.clock import Clock
from airflow_provider_ha.errors import (
    CheckpointError,
    ConfigurationError,
    DecisionNeededError,
    HaError,
    RecordCorruptError,
    RestoreUnknownError,
)
from airflow_provider_ha.jobs.job_graph import Blob
from airflow_provider_ha.jobs.model import Fallback, Generation, Run, StartKind
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.query_names import own_name, query_directory
from airflow_provider_ha.storage.blobs import put_blob
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.object_store import ObjectStore


log = logging.getLogger(__name__)
_LONGEST = 800  # characters of the reasons: with the commands, they fit into the driver's last words


@dataclass(frozen=True, slots=True, kw_only=True)
class FallbackPlanner:
    """Plans the fallback of one epoch. Writes only the plan's blob.

    :param store: Receives the plan.
    :param area: Holds the working directories, and their retained parts.
    :param run: The run that continues.
    :param epoch: Epoch that falls back.
    :param options: Of the run: they name the brokers to query.
    :param reach: Access to the file systems of outputs, and of input files on S3.
    :param writers_dead: Whether the earlier drivers of the run are proven dead.
    :param known: Queries that the run is known to have had, by its status.
    """

    store: ObjectStore
    area: WorkArea
    checkpoints: CheckpointStore
    savepoints: SavepointStore
    keys: JobKeys
    run: Run
    epoch: int
    options: HaOptions
    clock: Clock
    reach: StorageAccess = field(default_factory=StorageAccess)
    writers_dead: bool = True
    known: Collection[str] = ()

    def plan(self, lost: Generation, because: HaError, *, refused: bool) -> tuple[Fallback, RestorePlan]:
        """Return the checkpoint to continue from, and its plan.

        :param lost: The working directory that cannot be continued.
        :param because: Why not.
        :param refused: Whether Spark refused it: then Spark also refused the checkpoint that an earlier fallback
            restored.
        :raises DecisionNeededError: No plan is certain to avoid loss and repetition.
        :raises HaError: A retryable error: something could not be read.
        """
        self.area.require()  # guard: storage-that-is-away-is-gone
        log.warning("the working directory of epoch %d cannot be continued: %s", lost.epoch, because)
        before = lost.fallback
        tried = before.tried if before is not None else ()
        if before is not None and refused:
            tried = (*tried, before.source)
        try:
            return self._plan(lost, because, tried)
        except (CheckpointError, RecordCorruptError) as error:
            if error.retryable:
                raise
            raise self._undecided(because, str(error), "") from error

    def _plan(self, lost: Generation, because: HaError, tried: tuple[str, ...]) -> tuple[Fallback, RestorePlan]:
        selection = self._select(tried)
        if selection.chosen is None:
            raise self._undecided(because, "; ".join(_rejections(selection)) or "it has no checkpoint yet", "")
        facts = self._facts(lost, selection, selection.chosen)
        job, repeatable = self.keys.job_id, frozenset(map(query_directory, self.options.repeatable))
        plan = plan_restore(facts, RestoreChoices(job_id=job, source_job=job, repeatable=repeatable))
        self._check(plan, selection.chosen, facts, lost, because)
        sha256, size = put_blob(self.store, plan.to_bytes())
        fallback = Fallback(
            source=plan.name,
            plan=Blob(sha256=sha256, size=size),
            lost=lost.directory,
            reason=because.message,
            epoch=self.epoch,
            cut={name: query.batch for name, query in plan.queries.items()},
            again={name: query.batch + len(query.replay) for name, query in plan.queries.items()},
            tried=tried,
            at=self.clock.now(),
        )
        log.warning("run %d %s", self.run.number, fallback.sentence)
        return fallback, plan

    def _select(self, tried: tuple[str, ...]) -> Selection:
        refused = dict.fromkeys(tried, "Spark refused its restored state")
        return select(
            self.checkpoints,
            self.savepoints,
            self.area,
            passed_over={**self._of_others(), **refused},
            now=self.clock.now(),
        )

    def _of_others(self) -> dict[str, str]:
        """Return the candidates that are no part of this run's past, with the reason."""
        start = self.run.start
        own_start = start.kind is not StartKind.FRESH and start.source_job == self.keys.job_id
        begun_from = f"{start.kind.value}-{start.source_id}" if own_start else ""
        found = {f"checkpoint-{each.number}": each.run for each in self.checkpoints.list()}
        for each in self.savepoints.list():
            with contextlib.suppress(CheckpointError, RecordCorruptError):  # the selection reports its defect
                found[f"savepoint-{each.savepoint_id}"] = self.savepoints.load(each).run
        return {
            name: f"it is of run {number}, and this is run {self.run.number}"
            for name, number in found.items()
            if number != self.run.number and name != begun_from
        }

    def _facts(self, lost: Generation, selection: Selection, chosen: RestoreSource) -> RestoreFacts:
        before = lost.fallback.plan if lost.fallback is not None else self.run.start.plan
        replayed = planned_replays(self.store, before.sha256 if before is not None else None)
        facts = gather_facts(
            RestoreCase(
                chosen=chosen,
                at=self.clock.now(),
                root=self.area.tree(chosen.directory),
                payloads=self.checkpoints.payloads(),
                last=LastDirectory(self.area, lost.directory, lost.epoch, lost.run, replayed),
                starts={self.run.number: RunStart(self.run.start.common_within(self.keys.job_id))},
                candidates=selection.candidates,
                external=external_queries(
                    self.options, self.area, self.keys, self.reach, lambda query: chosen.queries[query].sources.brokers
                ),
                reach=self.reach,
                writers_dead=self.writers_dead,
            )
        )
        for query, known in facts.queries.items():
            for each in known.around.unknown if known.around is not None else ():
                if each.retryable:
                    raise RestoreUnknownError(f"query {query!r}: {each.reason}", next_step=each.next_step)
        return facts

    def _check(
        self, plan: RestorePlan, chosen: RestoreSource, facts: RestoreFacts, lost: Generation, because: HaError
    ) -> None:
        """Refuse every verdict but SAFE.

        :raises DecisionNeededError: The verdict is another one, or unknown.
        """
        reasons = [f"{plan.verdict.value}: {'; '.join(plan.reasons) or 'no reason is known'}"]
        verdicts = not_accepted(plan, ())
        missing = sorted(self._known(lost) - facts.queries.keys())
        if missing:
            reasons.append(f"{Verdict.LOSS_POSSIBLE.value}: it does not hold {', '.join(missing)}, which started later")
            verdicts = verdicts or [Verdict.LOSS_POSSIBLE]
        if verdicts or plan.unknown:  # guard: fallback-follows-any-plan
            accepted = "".join(f" --accept-verdicts {verdict.value}" for verdict in verdicts)
            accepted += "".join(f" --accept-unverified {query}" for query in plan.unknown)
            possible = "" if Verdict.IMPOSSIBLE in verdicts else accepted
            raise self._undecided(because, f"restoring {chosen.name} is {'; '.join(reasons)}", possible)

    def _known(self, lost: Generation) -> set[str]:
        directory = self.area.tree(self.area.current(lost.directory))
        found = {*self.known, *queries(directory)}
        try:
            started = read_started(directory)
        except RecordCorruptError:
            return found
        sinks = started.sinks if started is not None else {}
        for_a_look = {name for name, sink in sinks.items() if (sink.format or "").lower() in DEBUG_FORMATS}
        return (found | sinks.keys()) - for_a_look

    def _undecided(self, because: HaError, reason: str, accepted: str) -> DecisionNeededError:
        job = self.keys.job_id
        said = reason if len(reason) <= _LONGEST else f"{reason[:_LONGEST]}..."
        command = f"spark-ha job restore {job} --if-lost restart"
        other = f"`{command} --start-from ...` continues from another checkpoint or savepoint"
        ways = f"`{command}{accepted}` accepts this and continues from there" if accepted else other
        return DecisionNeededError(
            f"run {self.run.number} of job {job!r} waits for a decision, because {because.message}, and no known "
            f"checkpoint allows it to continue without loss or duplicates: {said.rstrip('.')}",
            next_step=f"`spark-ha job restore {job} --dry-run` shows the ways out; {ways}",
        )


def external_queries(
    options: HaOptions, area: WorkArea, keys: JobKeys, reach: StorageAccess, noted: Callable[[str], str]
) -> ExternalQueries:
    """Return the external queries for the queries of a cut, configured by the options of the run.

    :param noted: Query -> the brokers that its script names; empty where they are not noted.
    """
    return ExternalQueries(
        ask_kafka=ask_brokers(options, noted),
        ask_inputs=partial(look_for, reach=reach),
        given=lambda query: area.tree(keys.given(query)),
    )


def ask_brokers(options: HaOptions, noted: Callable[[str], str], timeout: float = ANSWER_SECONDS) -> AskKafka:
    """Return a client of a query's brokers: named by the options of the run, else by the notes.

    :param timeout: Seconds for each request.
    """
    properties = Path(options.kafka_properties) if options.kafka_properties else None

    def held(query: str, topics: frozenset[str]) -> Mapping[Partition, PartitionOffsets]:
        servers = options.kafka_bootstrap.get(own_name(query)) or noted(query)
        if not servers:
            raise ConfigurationError(
                f"the brokers of {', '.join(sorted(topics))} for query {query!r} are not configured, and the "
                "checkpoint does not name them",
                next_step="Name them in the option kafka_bootstrap of the job",
            )
        return held_offsets(servers, topics, properties=properties, timeout=timeout)

    return held


def _rejections(selection: Selection) -> list[str]:
    return [f"{each.source}: {each.file or 'record'}: {each.reason}" for each in selection.candidates]
