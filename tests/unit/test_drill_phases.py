"""The phases of a drill: told once when they begin, and timed."""

from __future__ import annotations

import pytest

from airflow_provider_ha.checkpoints.verify.proof_protocol import (
    Application,
    ProofEvent,
    ProofMessage,
    ProofRequest,
    StateReading,
)
from airflow_provider_ha.jobs.verification.job_drill import DrillPhases, Stopwatch
from airflow_provider_ha.jobs.verification.spark_proof import ProofProgress, ProofStep, after
from tests.support.clusters.coordination_helpers import HeldClock


READING = StateReading(operator=0, store="default", partitions=2)
UP, LOADED = ProofMessage(event=ProofEvent.SPARK), ProofMessage(event=ProofEvent.LOADED, reading=READING, rows=(1, 2))


def test_each_phase_is_timed_and_told_once() -> None:
    clock, told = HeldClock(), list[str]()
    watch = Stopwatch(clock)
    phases = DrillPhases(watch, told.append)

    phases.begin("choose", "savepoint-s1")
    clock.time += 1
    for _ in range(2):
        phases.of_proof(ProofProgress("loading the state", step=ProofStep.LOAD, query="orders"))
        clock.time += 2
    watch.end()

    assert told == ["choose: savepoint-s1", "load: query 'orders', loading the state"]
    assert watch.seconds == {"choose": 1.0, "load": 4.0}


@pytest.mark.parametrize(
    ("readings", "starts", "answers", "step"),
    [
        ((READING,), True, [UP], ProofStep.LOAD),
        ((READING,), True, [UP, LOADED], ProofStep.START),
        ((READING,), False, [UP, LOADED], ProofStep.LOAD),
        ((), True, [UP], ProofStep.START),
    ],
)
def test_the_answers_of_the_child_say_which_step_goes_on(
    readings: tuple[StateReading, ...],
    starts: bool,
    answers: list[ProofMessage],
    step: ProofStep,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    place = tmp_path_factory.getbasetemp()
    request = ProofRequest(
        copy_directory=place,
        original=str(place),
        batch=1,
        state_by_id=False,
        readings=readings,
        application=Application(script=place / "app.py") if starts else None,
        scratch=place,
        heap="1g",
    )

    assert after(request, answers).step is step
