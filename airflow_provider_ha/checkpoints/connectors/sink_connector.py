"""What this package needs of a sink that keeps its own record of batches (``sinks`` finds the connector of a type).

A connector is bound to the output of one query. Facts are read by ``state``; ``judge`` decides from facts alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from airflow_provider_ha.checkpoints.model import Verdict
from airflow_provider_ha.checkpoints.trees.tree import Tree


OWN_OUTPUT = "restore as another job, with its own output"
REPEATABLE = (
    "declare the query repeatable (--repeatable, repeatable of the operator), if a batch that comes again, with its "
    "number and its rows, leaves the output as it was"
)
RECORDED_CUT = "restore a cut after which every batch is recorded; the candidates name what there is"


@dataclass(frozen=True, slots=True)
class SinkState:
    """What one output has, and what a cut keeps of it.

    :param reached: Highest batch that it has; -1 for none.
    :param digests: Batch -> sha256 of the sink's record of the batch, above the cut.
    :param gone: Whether its record is not there although the cut has a batch.
    :param log_kept: Whether its record up to the cut is kept with the cut.
    :param damaged: Batch -> what is wrong with it in the record, of all that its query reads there.
    """

    reached: int = -1
    digests: Mapping[int, str] = field(default_factory=dict)
    gone: bool = False
    log_kept: bool = True
    damaged: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SinkCase:
    """A restore, as far as one output is concerned.

    :param batch: N of the cut.
    :param state: What the output has.
    :param top: Last batch that is executed again with its recorded boundaries; ``None`` for a job that goes on with
        another output.
    :param drained: Batch that a drain gave to the output, and the digest of its record; ``None`` when there is none.
    :param writers_dead: Whether every driver that could write to the output is proven dead.
    :param is_known: Whether it could be found out what an output has that remembers the query.
    :param has_fresh_id: Whether the query gets a fresh id.
    :param planned_to: Highest batch that is known to have been planned.
    :param complete: Whether no higher batch can have been planned.
    :param noted_to: Highest batch that a fenced function was given; ``None`` without notes of every epoch.
    :param finished_to: Highest batch that it has finished with the recorded boundaries; -1 for none. It does not get
        these again.
    :param drain_wrote: Whether the drain may have given the output anything.
    """

    batch: int
    state: SinkState
    top: int | None
    drained: tuple[int, str | None] | None = None
    writers_dead: bool = True
    is_known: bool = True
    has_fresh_id: bool = False
    planned_to: int = -1
    complete: bool = True
    noted_to: int | None = None
    finished_to: int = -1
    drain_wrote: bool = False


class Findings(Protocol):
    """Where a connector notes what keeps a restore from being SAFE."""

    def add(self, verdict: Verdict, reason: str, *ways_out: str) -> None:
        """Note a finding."""

    def add_unknown(self, reason: str, *ways_out: str) -> None:
        """Note what could not be found out."""


class SinkConnector(Protocol):
    """The record of batches of one output. Nothing is remembered between two calls."""

    @property
    def needs_proof(self) -> bool:
        """Whether a record that was set aside can come back from a writer that is not proven dead."""

    def reached(self) -> int:
        """Return the highest batch that the output has; -1 for none.

        :raises StorageUnavailableError: It could not be read.
        """

    def digest(self, batch: int) -> str | None:
        """Return the sha256 of the output's own record of *batch*; ``None`` when it has none."""

    def state(self, batch: int, kept: Tree | None) -> SinkState:
        """Return what the output has, for a cut at *batch*.

        :param kept: Where the cut keeps the record of the output; ``None`` when nowhere.
        """

    def record(self) -> Tree:
        """Return where the output keeps its record of batches.

        :raises ConfigurationError: The output is not known yet.
        """

    def closure(self, batch: int) -> Iterator[str]:
        """Yield the names in the record that a cut at *batch* has to keep.

        :raises CheckpointCorruptError: The record is not whole up to *batch*.
        """

    def set_aside(self, batch: int, digest: str) -> bool:
        """Take the record of the highest batch out of the output, when it is exactly that one; repeatable.

        Where the storage cannot rename, the caller has to know that the process that wrote it is dead.

        :returns: Whether it was there.
        :raises RestoreRefusedError: Another record has that number, or the output goes on behind it.
        """

    def seed(self, batch: int, mode: str, source: Tree) -> None:
        """Give a new output the record that its query looks for when it goes on after *batch*.

        :param mode: ``"continue"`` keeps what the old record names, ``"fresh"`` begins without it.
        :param source: The old record, as a cut keeps it.
        :raises ObjectExistsError: The output has a record.
        """

    def judge(self, case: SinkCase, findings: Findings) -> dict[int, str]:
        """Note what the output makes of a restore; return what has to be set aside there: batch -> digest. Pure."""
