"""Result of a proof: proven, refuted or unknown, with the loaded state; its decision from the child's output.

Invariant: only a refusal by Spark itself refutes. A child that died, was out of time or out of memory leaves the
question open.

Invariant: a step is proven only by an explicit answer, and refuted only by an error about the checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from airflow_provider_ha.checkpoints.spark.checkpoint_layout import OFFSETS, STATE
from airflow_provider_ha.checkpoints.verify.codes import Code
from airflow_provider_ha.checkpoints.verify.proof_protocol import (
    ProofEvent,
    ProofMessage,
    ProofRequest,
    SparkError,
    StateReading,
    decisive_error,
    is_refusal,
)
from airflow_provider_ha.checkpoints.verify.restorable import verdict_on
from airflow_provider_ha.checkpoints.verify.verification_report import BatchVerdict, Finding, VerificationReport


class ProofOutcome(str, Enum):
    """The outcome of a step."""

    PROVEN = "proven"
    REFUTED = "refuted"  # Spark refused
    UNKNOWN = "unknown"  # it was asked, and there was no answer
    NOTHING = "nothing"  # there is nothing to do: a query without state has none to load
    NOT_ASKED = "not_asked"  # no application was named, or an earlier step was refuted


@dataclass(frozen=True, slots=True)
class StepResult:
    """One step of a proof.

    :param reason: Why it is not proven, as a clause without a final stop; empty when it is.
    """

    outcome: ProofOutcome
    reason: str = ""


@dataclass(frozen=True, slots=True)
class LoadedState:
    """Rows that Spark read from a store, variable or set of timers.

    :param rows: Rows of the partitions, in their order.
    """

    reading: StateReading
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TrialStart:
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
    :param seconds: Duration of the whole check in seconds.
    """

    directory: str
    batch: int | None
    verification: VerificationReport
    loading: StepResult
    starting: StepResult
    state: tuple[LoadedState, ...] = ()
    started: TrialStart | None = None
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
        asked = (
            step
            for step in (self.loading, self.starting)
            if step.outcome in {ProofOutcome.REFUTED, ProofOutcome.UNKNOWN}
        )
        return "" if self.proven else "; ".join(dict.fromkeys(step.reason for step in asked if step.reason))

    @property
    def proven(self) -> bool | None:
        """``True`` when it was proven, ``False`` when it was refuted, ``None`` when it is unknown.

        A step that was not asked takes nothing away: without an application ``True`` means loaded, not started.
        """
        if self.batch is None or self.verdict is None:
            return None
        outcomes = {self.loading.outcome, self.starting.outcome}
        if not self.verdict.provable or ProofOutcome.REFUTED in outcomes:
            return False
        if not self.verdict.restorable and self.starting.outcome is not ProofOutcome.PROVEN:
            return None  # what the files do not tell, only a start does
        # A query that committed has loaded the state of every operator, also state that a reader of it could not read.
        unknown = self.starting.outcome is not ProofOutcome.PROVEN and ProofOutcome.UNKNOWN in outcomes
        return None if unknown else True


def sentences(proof: Proof) -> Iterator[str]:
    """Yield the answer as text, one sentence per line."""
    batch = proof.batch
    yield {
        True: f"Spark {proof.spark_version} continues from batch {batch}",
        False: f"batch {batch} is refuted",
        None: f"whether Spark continues from batch {batch} is undetermined",
    }[proof.proven]
    yield f"loaded: {_LOADED[proof.loading.outcome]}{_because(proof.loading)}"
    yield f"started: {_STARTED[proof.starting.outcome]}{_because(proof.starting)}"


_LOADED = {
    ProofOutcome.PROVEN: "yes, the whole state",
    ProofOutcome.REFUTED: "no, Spark refused it",
    ProofOutcome.UNKNOWN: "unknown",
    ProofOutcome.NOTHING: "the checkpoint holds no state",
    ProofOutcome.NOT_ASKED: "not tried",
}
_STARTED = {
    ProofOutcome.PROVEN: "yes, and one batch without input was committed",
    ProofOutcome.REFUTED: "no, Spark refused it",
    ProofOutcome.UNKNOWN: "unknown",
    ProofOutcome.NOTHING: "not tried",
    ProofOutcome.NOT_ASKED: "not tried",
}


def _because(step: StepResult) -> str:
    return f" ({step.reason})" if step.reason else ""


NO_APPLICATION = "no application was named"


@dataclass(frozen=True, slots=True)
class ProofDecision:
    """The result after the child has ended."""

    loading: StepResult
    starting: StepResult
    state: tuple[LoadedState, ...]
    started: TrialStart | None
    findings: tuple[Finding, ...]


def decide(request: ProofRequest, answers: Sequence[ProofMessage], ending: str) -> ProofDecision:
    """Return the result.

    :param answers: All answers of the child, in order.
    :param ending: How it ended, as a clause; empty when it ended in order.
    """
    loaded = [
        LoadedState(item.reading, item.rows) for item in answers if item.event is ProofEvent.LOADED and item.reading
    ]
    refused = [item for item in answers if item.event is ProofEvent.REFUSED]
    unable = next((item.reason for item in answers if item.event is ProofEvent.UNABLE), "")
    missing = unable or ending or "the child gave no answer about it"
    loading, found = _loading(request, loaded, refused, missing)
    starting, started, more = _starting(request, loading, answers, missing)
    return ProofDecision(loading, starting, tuple(loaded), started, (*found, *more))


def _loading(
    request: ProofRequest, loaded: list[LoadedState], refused: list[ProofMessage], missing: str
) -> tuple[StepResult, list[Finding]]:
    if not request.readings:
        return StepResult(ProofOutcome.NOTHING), []
    errors = {item.reading: item.errors for item in refused if item.reading is not None}
    rows = {state.reading: state.rows for state in loaded}
    no = [reading for reading in request.readings if is_refusal(errors.get(reading, ()))]  # guard: any-error-is-a-no
    if no:
        findings = [_refused_load(request.batch, reading, errors[reading]) for reading in no]
        return StepResult(ProofOutcome.REFUTED, findings[0].found), findings
    for reading in request.readings:
        unknown = _unanswered(reading, errors.get(reading, ()), rows.get(reading), missing)
        if unknown:
            return StepResult(ProofOutcome.UNKNOWN, unknown), [_unknown(request.batch, _place(reading), unknown)]
    return StepResult(ProofOutcome.PROVEN), []


def _unanswered(
    reading: StateReading, errors: Sequence[SparkError], rows: tuple[int, ...] | None, missing: str
) -> str | None:
    """Return why it is not known whether Spark can load it; ``None`` when it is."""
    if rows is None:
        return _text(decisive_error(errors)) if errors else missing  # guard: silence-is-proof
    if len(rows) < reading.partitions:
        # Spark reads the partitions that it finds: a partition that it does not see has not been loaded.
        return f"Spark read {len(rows)} of {reading.partitions} partitions of {reading.title}"
    return None


def _starting(
    request: ProofRequest, loading: StepResult, answers: Sequence[ProofMessage], missing: str
) -> tuple[StepResult, TrialStart | None, list[Finding]]:
    if request.application is None:
        return StepResult(ProofOutcome.NOT_ASKED, NO_APPLICATION), None, []
    started = next((item for item in answers if item.event is ProofEvent.STARTED), None)
    if started is not None:
        return StepResult(ProofOutcome.PROVEN), TrialStart(started.query, request.batch + 1, started.operators), []
    if loading.outcome is ProofOutcome.REFUTED:
        return StepResult(ProofOutcome.NOT_ASKED, "its state could not be loaded"), None, []
    errors = next((item.errors for item in answers if item.event is ProofEvent.REFUSED and item.reading is None), ())
    if is_refusal(errors):
        found = _text(decisive_error(errors))
        expected = f"a commit of batch {request.batch + 1}, without input"
        path = f"{OFFSETS}/{request.batch}"
        finding = Finding(Code.START_REFUSED, path, request.batch, found, expected, blocks=True)
        return StepResult(ProofOutcome.REFUTED, found), None, [finding]
    reason = _text(decisive_error(errors)) if errors else missing
    return StepResult(ProofOutcome.UNKNOWN, reason), None, [_unknown(request.batch, ".", reason)]


def _refused_load(batch: int, reading: StateReading, errors: Sequence[SparkError]) -> Finding:
    expected = f"{reading.title} as batch {batch} left it, in {reading.partitions} partition(s)"
    return Finding(Code.LOAD_REFUSED, _place(reading), batch, _text(decisive_error(errors)), expected, blocks=True)


def _unknown(batch: int, path: str, reason: str) -> Finding:
    return Finding(Code.NOT_PROVEN, path, batch, reason, "an answer of Spark", blocks=None)


def _place(reading: StateReading) -> str:
    return f"{STATE}/{reading.operator}"


def _text(error: SparkError) -> str:
    said = error.message.strip().rstrip(".")
    return said if error.error_class in said else f"{error.error_class}: {said}" if said else error.error_class
