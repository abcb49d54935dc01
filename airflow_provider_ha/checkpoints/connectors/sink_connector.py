"""Interface of a sink with its own record of batches (``sinks`` finds the connector of a type).

A connector is bound to the output of a query. Facts are read by ``state``; ``judge`` decides from facts alone.
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
    """State of an output, and the part kept by a cut.

    :param reached: Highest batch; -1 without one.
    :param digests: Sha256 of the sink's record by batch, above the cut.
    :param gone: Whether the record is missing although the cut has a batch.
    :param log_kept: Whether the record up to the cut is kept with the cut.
    :param damaged: Damages by batch, among the records that the query reads.
    """

    reached: int = -1
    digests: Mapping[int, str] = field(default_factory=dict)
    gone: bool = False
    log_kept: bool = True
    damaged: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SinkCase:
    """A restore from the point of view of an output.

    :param batch: N of the cut.
    :param state: State of the output.
    :param top: Last batch that is executed again with its recorded boundaries; ``None`` for a job that continues with
        another output.
    :param drained: Batch that a drain gave to the output, and the digest of its record; ``None`` without one.
    :param writers_dead: Whether all drivers that could write to the output are proven dead.
    :param is_known: Whether the state of an output that remembers the query could be read.
    :param has_fresh_id: Whether the query gets a fresh id.
    :param planned_to: Highest batch known to have been planned.
    :param complete: Whether higher batches are impossible.
    :param noted_to: Highest batch that a fenced function received; ``None`` unless every epoch has notes.
    :param finished_to: Highest batch finished with the recorded boundaries; -1 without one. The function does not get
        these batches again.
    :param drain_wrote: Whether the drain may have written to the output.
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
    """Collector of findings that keep a restore from being SAFE."""

    def add(self, verdict: Verdict, reason: str, *ways_out: str) -> None:
        """Note a finding."""

    def add_unknown(self, reason: str, *ways_out: str) -> None:
        """Add an unknown fact."""


class SinkConnector(Protocol):
    """The record of batches of an output. Stateless."""

    @property
    def needs_proof(self) -> bool:
        """Return whether a record that was set aside can come back from a writer that is not proven dead."""

    def reached(self) -> int:
        """Return the highest batch of the output; -1 for none.

        :raises StorageUnavailableError: It could not be read.
        """

    def digest(self, batch: int) -> str | None:
        """Return the sha256 of the output's record of *batch*; ``None`` without a record."""

    def state(self, batch: int, kept: Tree | None) -> SinkState:
        """Return the state of the output, for a cut at *batch*.

        :param kept: The cut's copy of the output's record; ``None`` without one.
        """

    def record(self) -> Tree:
        """Return the directory of the output's record of batches.

        :raises ConfigurationError: The output is not known yet.
        """

    def closure(self, batch: int) -> Iterator[str]:
        """Yield the names in the record that a cut at *batch* must keep.

        :raises CheckpointCorruptError: The record is incomplete up to *batch*.
        """

    def set_aside(self, batch: int, digest: str) -> bool:
        """Remove the record of the highest batch from the output, if its digest matches; repeatable.

        Where the storage cannot rename, the caller must know that the process that wrote it is dead.

        :returns: Whether it existed.
        :raises RestoreRefusedError: Another record has that number, or the output continues after it.
        """

    def seed(self, batch: int, mode: str, source: Tree) -> None:
        """Give a new output the record that its query expects when it continues after *batch*.

        :param mode: ``"continue"`` keeps the entries of the old record, ``"fresh"`` starts without them.
        :param source: The old record, as kept by a cut.
        :raises ObjectExistsError: The output has a record.
        """

    def judge(self, case: SinkCase, findings: Findings) -> dict[int, str]:
        """Add the output's findings about a restore; return the digests of batches to set aside, by batch. Pure."""
