"""Result of a proof: proven, refuted or unknown, the state that Spark loaded, and whether the query started.

Invariant: only a refusal by Spark itself refutes. A child that died, was out of time or out of memory leaves the
question open.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from airflow_provider_ha.checkpoints.proof.request import StateReading
from airflow_provider_ha.checkpoints.verify.findings import Finding
from airflow_provider_ha.checkpoints.verify.report import BatchVerdict, Report
from airflow_provider_ha.checkpoints.verify.restorable import verdict_on


class Outcome(str, Enum):
    """The outcome of a step."""

    PROVEN = "proven"
    REFUTED = "refuted"  # Spark refused
    UNKNOWN = "unknown"  # it was asked, and there was no answer
    NOTHING = "nothing"  # there is nothing to do: a query without state has none to load
    NOT_ASKED = "not_asked"  # no application was named, or an earlier step was refuted


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a proof.

    :param reason: Why it is not proven, as a clause without a final stop; empty when it is.
    """

    outcome: Outcome
    reason: str = ""


@dataclass(frozen=True, slots=True)
class LoadedState:
    """Rows that Spark read from a store, variable or set of timers.

    :param rows: Rows of the partitions, in their order.
    """

    reading: StateReading
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StartedOnCopy:
    """The actions of the query on the copy.

    :param name: Its name.
    :param batch: The batch that it committed, N + 1.
    :param state_rows: Rows of state of each of its stateful operators after that batch, as Spark counts them.
    """

    name: str
    batch: int
    state_rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Proof:
    """Result of a proof that Spark continues from a batch.

    :param directory: The checkpoint.
    :param batch: N; ``None`` when no batch could be chosen.
    :param verification: The preceding full verification.
    :param loading: Whether Spark loaded the whole state of the batch.
    :param starting: Whether Spark executed the next batch on it, without input and without a sink.
    :param state: The loaded state, in the order of the operators.
    :param started: The actions of the query; ``None`` when it did not commit.
    :param findings: The refusals of Spark, and the questions that stay open.
    :param spark_version: The Spark release that ran the check.
    :param seconds: Duration.
    """

    directory: str
    batch: int | None
    verification: Report
    loading: Step
    starting: Step
    state: tuple[LoadedState, ...] = ()
    started: StartedOnCopy | None = None
    findings: tuple[Finding, ...] = ()
    spark_version: str = ""
    seconds: float = 0.0

    @property
    def verdict(self) -> BatchVerdict | None:
        """The verification's judgement of the batch."""
        return verdict_on(self.verification, self.batch)

    @property
    def why(self) -> str:
        """Why it is not proven: the reasons of the failed or open steps; empty when it is."""
        asked = (step for step in (self.loading, self.starting) if step.outcome in {Outcome.REFUTED, Outcome.UNKNOWN})
        return "" if self.proven else "; ".join(dict.fromkeys(step.reason for step in asked if step.reason))

    @property
    def proven(self) -> bool | None:
        """``True`` when it was proven, ``False`` when it was refuted, ``None`` when it is unknown.

        A step that was not asked takes nothing away: without an application ``True`` means loaded, not started.
        """
        if self.batch is None or self.verdict is None:
            return None
        outcomes = {self.loading.outcome, self.starting.outcome}
        if not self.verdict.provable or Outcome.REFUTED in outcomes:
            return False
        if not self.verdict.restorable and self.starting.outcome is not Outcome.PROVEN:
            return None  # what the files do not tell, only a start does
        # A query that committed has loaded the state of every operator, also state that a reader of it could not read.
        unknown = self.starting.outcome is not Outcome.PROVEN and Outcome.UNKNOWN in outcomes
        return None if unknown else True


def sentences(proof: Proof) -> Iterator[str]:
    """Yield the answer as text, one sentence per line."""
    batch = proof.batch
    yield {
        True: f"Spark {proof.spark_version} goes on from batch {batch}",
        False: f"batch {batch} is refuted",
        None: f"whether Spark goes on from batch {batch} could not be found out",
    }[proof.proven]
    yield f"loaded: {_LOADED[proof.loading.outcome]}{_because(proof.loading)}"
    yield f"started: {_STARTED[proof.starting.outcome]}{_because(proof.starting)}"


_LOADED = {
    Outcome.PROVEN: "yes, the whole state",
    Outcome.REFUTED: "no, Spark refused it",
    Outcome.UNKNOWN: "unknown",
    Outcome.NOTHING: "the checkpoint holds no state",
    Outcome.NOT_ASKED: "not tried",
}
_STARTED = {
    Outcome.PROVEN: "yes, and one batch without input was committed",
    Outcome.REFUTED: "no, Spark refused it",
    Outcome.UNKNOWN: "unknown",
    Outcome.NOTHING: "not tried",
    Outcome.NOT_ASKED: "not tried",
}


def _because(step: Step) -> str:
    return f" ({step.reason})" if step.reason else ""
