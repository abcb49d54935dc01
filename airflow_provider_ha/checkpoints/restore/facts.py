"""The facts that the plan of a restore follows from: records, sinks and inputs as they were read (``gather``).

Invariant: facts are complete before a plan is made of them, and neither is changed afterwards. A fact that is missing
in a plan is a fact that ``gather_facts`` has to read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from airflow_provider_ha.checkpoints.connectors.foreach_batch import ForeachBatchRecord, summary
from airflow_provider_ha.checkpoints.connectors.sink_connector import SinkState
from airflow_provider_ha.checkpoints.model import BatchEntry, Candidate, GivenBatches, QueryCut
from airflow_provider_ha.checkpoints.restore.external_state import Surroundings
from airflow_provider_ha.checkpoints.restore.select import Chosen
from airflow_provider_ha.checkpoints.working.unfinished_drain import Drained
from airflow_provider_ha.pointers.ownership import AdoptedCheckpoint


@dataclass(frozen=True, slots=True)
class QueryFacts:
    """What is known about one query.

    :param cut: Its part of the chosen cut.
    :param history: Recorded batch -> its entry: what the sinks were given last.
    :param planned_to: Highest batch that is known to have been planned, readable or not.
    :param complete: Whether no higher batch can have been planned.
    :param sink: What its sink has, and what the cut keeps of it.
    :param drain: What a drain wrote beyond the cut, or may have written when it was not finished.
    :param epochs: Epochs that may have given a batch after the cut to the sink.
    :param around: What was found around it; ``None`` when it was not collected.
    :param left_by: First later run that may have given the sink other batches up to the cut; ``None`` when none has.
    :param turns: Epoch -> first batch that its run has planned anew.
    :param writers_dead: Whether every driver that could write to its sink is proven dead.
    :param entry: What the directory of the cut says of its batch; ``None`` when it was not read.
    """

    cut: QueryCut
    history: Mapping[int, BatchEntry]
    planned_to: int
    complete: bool
    sink: SinkState = field(default_factory=SinkState)
    drain: Drained | None = None
    epochs: frozenset[int] = frozenset()
    around: Surroundings | None = None
    left_by: int | None = None
    turns: Mapping[int, int] = field(default_factory=dict)
    writers_dead: bool = True
    entry: BatchEntry | None = None

    @property
    def own_entry(self) -> BatchEntry | None:
        """What the cut itself says of its batch: its record, or its directory where an older record has the batch."""
        # guard: cuts-without-a-batch-have-read-nothing
        return next((entry for entry in self.cut.entries if entry.batch == self.cut.batch), self.entry)

    @property
    def notes(self) -> Mapping[int, ForeachBatchRecord]:
        """What a fenced function was given, by the epochs that may have given it something after the cut."""
        notes = self.around.given if self.around is not None else {}
        return {epoch: note for epoch, note in notes.items() if epoch in self.epochs}

    @property
    def planned_at_least(self) -> int:
        """Highest batch that is known to have been planned: what a fenced function was given was planned before."""
        # guard: notes-count-only-together
        return max((self.planned_to, *(note.begun for note in self.notes.values())))

    @property
    def given(self) -> GivenBatches | None:
        """What a fenced function was given; ``None`` without a note."""
        return summary(self.notes, self.turns)

    @property
    def given_to(self) -> int | None:
        """Highest batch that a fenced function was given; ``None`` when not every such epoch has noted it."""
        if not self.notes or self.epochs - self.notes.keys():
            return None
        return max(note.begun for note in self.notes.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreFacts:
    """Everything that the plan of a restore follows from, beside what the request chooses.

    :param chosen: The cut.
    :param at: When the facts were read.
    :param queries: Query -> what is known about it.
    :param candidates: What was looked at before the choice, newest first.
    :param adopted: Query -> checkpoint of another owner, as it was looked at.
    :param claimed: Whether an earlier restore has claimed the chosen savepoint.
    :param has_state: Whether the job has its own checkpoints, beside the adopted ones.
    :param begun_later: Query of the last run that the cut does not hold -> highest batch that its sink was given.
    """

    chosen: Chosen
    at: datetime
    queries: Mapping[str, QueryFacts]
    candidates: tuple[Candidate, ...] = ()
    adopted: Mapping[str, AdoptedCheckpoint] = field(default_factory=dict)
    claimed: bool = False
    has_state: bool = False
    begun_later: Mapping[str, int] = field(default_factory=dict)
