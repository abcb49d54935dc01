"""Facts behind the plan of a restore: records, sinks and inputs as they were read (``gather``).

Invariant: facts are complete before they become a plan, and neither is changed afterwards. If a plan needs a further
fact, ``gather_facts`` must read it.
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
    """Facts about a query.

    :param cut: Its part of the chosen cut.
    :param history: Entry by recorded batch: the last version given to the sinks.
    :param planned_to: Highest batch known to have been planned, readable or not.
    :param complete: Whether higher batches are impossible.
    :param sink: State of its sink, and the part kept by the cut.
    :param drain: Output of a drain beyond the cut, or its possible output when it did not finish.
    :param epochs: Epochs that may have given a batch after the cut to the sink.
    :param around: External facts; ``None`` when they were not collected.
    :param left_by: First later run that may have given the sink other batches up to the cut; ``None`` without one.
    :param turns: First batch that a run has planned anew, by epoch.
    :param writers_dead: Whether all drivers that could write to its sink are proven dead.
    :param entry: The cut's entry of its batch in the directory; ``None`` when it was not read.
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
        """The cut's entry of its batch: its record, or its directory where an older record has the batch."""
        # guard: cuts-without-a-batch-have-read-nothing
        return next((entry for entry in self.cut.entries if entry.batch == self.cut.batch), self.entry)

    @property
    def notes(self) -> Mapping[int, ForeachBatchRecord]:
        """Notes of a fenced function, for epochs that may have given it a batch after the cut."""
        notes = self.around.given if self.around is not None else {}
        return {epoch: note for epoch, note in notes.items() if epoch in self.epochs}

    @property
    def planned_at_least(self) -> int:
        """Highest batch known to have been planned: a batch given to a fenced function was planned before."""
        # guard: notes-count-only-together
        return max((self.planned_to, *(note.begun for note in self.notes.values())))

    @property
    def given(self) -> GivenBatches | None:
        """Batches given to a fenced function; ``None`` without a note."""
        return summary(self.notes, self.turns)

    @property
    def given_to(self) -> int | None:
        """Highest batch that a fenced function was given; ``None`` when not every such epoch has noted it."""
        if not self.notes or self.epochs - self.notes.keys():
            return None
        return max(note.begun for note in self.notes.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreFacts:
    """All facts behind the plan of a restore, except the choices of the request.

    :param chosen: The cut.
    :param at: Time at which the facts were read.
    :param queries: Facts by query.
    :param candidates: Cuts examined before the choice, newest first.
    :param adopted: Checkpoint of another owner by query, as examined.
    :param claimed: Whether an earlier restore has claimed the chosen savepoint.
    :param has_state: Whether the job has checkpoints in addition to the adopted ones.
    :param begun_later: Highest batch given to the sink, by query of the last run that is missing in the cut.
    """

    chosen: Chosen
    at: datetime
    queries: Mapping[str, QueryFacts]
    candidates: tuple[Candidate, ...] = ()
    adopted: Mapping[str, AdoptedCheckpoint] = field(default_factory=dict)
    claimed: bool = False
    has_state: bool = False
    begun_later: Mapping[str, int] = field(default_factory=dict)
