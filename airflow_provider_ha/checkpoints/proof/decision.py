"""The meaning of the child's answers, and of missing answers. Pure.

Invariant: a step is proven only by an explicit answer, and refuted only by an error about the checkpoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_provider_ha.checkpoints.format.layout import OFFSETS, STATE
from airflow_provider_ha.checkpoints.proof.answers import Answer, Event, SparkError
from airflow_provider_ha.checkpoints.proof.refusals import decisive_error, is_refusal
from airflow_provider_ha.checkpoints.proof.report import LoadedState, Outcome, StartedOnCopy, Step
from airflow_provider_ha.checkpoints.proof.request import ProofRequest, StateReading
from airflow_provider_ha.checkpoints.verify.findings import Code, Finding


NO_APPLICATION = "no application was named"


@dataclass(frozen=True, slots=True)
class Decision:
    """The result after the child has ended."""

    loading: Step
    starting: Step
    state: tuple[LoadedState, ...]
    started: StartedOnCopy | None
    findings: tuple[Finding, ...]


def decide(request: ProofRequest, answers: Sequence[Answer], ending: str) -> Decision:
    """Return the result.

    :param answers: All answers of the child, in order.
    :param ending: How it ended, as a clause; empty when it ended in order.
    """
    loaded = [LoadedState(item.reading, item.rows) for item in answers if item.event is Event.LOADED and item.reading]
    refused = [item for item in answers if item.event is Event.REFUSED]
    unable = next((item.reason for item in answers if item.event is Event.UNABLE), "")
    missing = unable or ending or "the child gave no answer about it"
    loading, found = _loading(request, loaded, refused, missing)
    starting, started, more = _starting(request, loading, answers, missing)
    return Decision(loading, starting, tuple(loaded), started, (*found, *more))


def _loading(
    request: ProofRequest, loaded: list[LoadedState], refused: list[Answer], missing: str
) -> tuple[Step, list[Finding]]:
    if not request.readings:
        return Step(Outcome.NOTHING), []
    errors = {item.reading: item.errors for item in refused if item.reading is not None}
    rows = {state.reading: state.rows for state in loaded}
    no = [reading for reading in request.readings if is_refusal(errors.get(reading, ()))]  # guard: any-error-is-a-no
    if no:
        findings = [_refused_load(request.batch, reading, errors[reading]) for reading in no]
        return Step(Outcome.REFUTED, findings[0].found), findings
    for reading in request.readings:
        unknown = _unanswered(reading, errors.get(reading, ()), rows.get(reading), missing)
        if unknown:
            return Step(Outcome.UNKNOWN, unknown), [_unknown(request.batch, _place(reading), unknown)]
    return Step(Outcome.PROVEN), []


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
    request: ProofRequest, loading: Step, answers: Sequence[Answer], missing: str
) -> tuple[Step, StartedOnCopy | None, list[Finding]]:
    if request.application is None:
        return Step(Outcome.NOT_ASKED, NO_APPLICATION), None, []
    started = next((item for item in answers if item.event is Event.STARTED), None)
    if started is not None:
        return Step(Outcome.PROVEN), StartedOnCopy(started.query, request.batch + 1, started.operators), []
    if loading.outcome is Outcome.REFUTED:
        return Step(Outcome.NOT_ASKED, "its state could not be loaded"), None, []
    errors = next((item.errors for item in answers if item.event is Event.REFUSED and item.reading is None), ())
    if is_refusal(errors):
        found = _text(decisive_error(errors))
        expected = f"a commit of batch {request.batch + 1}, without input"
        path = f"{OFFSETS}/{request.batch}"
        finding = Finding(Code.START_REFUSED, path, request.batch, found, expected, blocks=True)
        return Step(Outcome.REFUTED, found), None, [finding]
    reason = _text(decisive_error(errors)) if errors else missing
    return Step(Outcome.UNKNOWN, reason), None, [_unknown(request.batch, ".", reason)]


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
