"""What a drill's findings add up to, and how long its steps took."""

from __future__ import annotations

import pytest

from airflow_provider_ha.checkpoints.verify.codes import Code
from airflow_provider_ha.checkpoints.verify.proof_result import Proof, ProofOutcome, StepResult
from airflow_provider_ha.checkpoints.verify.verification_report import BatchVerdict, Reason, VerificationReport
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.jobs.verification.job_drill import DrillLimits, Stopwatch, decide
from airflow_provider_ha.jobs.verification.verification_records import DrillVerdict
from tests.support.clusters.coordination_helpers import HeldClock


PROVEN = StepResult(ProofOutcome.PROVEN)
HOUR = 3600.0


def proof(loading: StepResult = PROVEN, starting: StepResult = PROVEN, *, lacks: str = "") -> Proof:
    reasons = (Reason(Code.STATE_MISSING, lacks, "it is not there"),) if lacks else ()
    report = VerificationReport(
        startable=not lacks, restorable=[] if lacks else [8], findings=(), batches=(BatchVerdict(8, reasons),)
    )
    return Proof("/data/counts", 8, report, loading, starting)


def test_what_spark_goes_on_from_within_the_limits_has_passed() -> None:
    limits = DrillLimits(max_age=HOUR, max_duration=60)

    assert decide(limits, HOUR, 60.0, (), {"counts": proof()}) == (DrillVerdict.PASSED, ())


def test_an_old_savepoint_fails_although_it_can_be_restored() -> None:
    verdict, reasons = decide(DrillLimits(max_age=HOUR), 2 * HOUR, 1.0, (), {"counts": proof()})

    assert (verdict, reasons) == (
        DrillVerdict.FAILED,
        ("the newest restorable state is 7200 s old, and at most 3600 s are allowed",),
    )


def test_a_slow_restore_fails_although_it_succeeds() -> None:
    verdict, reasons = decide(DrillLimits(max_duration=60), 1.0, 61.0, (), {"counts": proof()})

    assert (verdict, reasons) == (DrillVerdict.FAILED, ("the drill took 61.0 s, and at most 60 s are allowed",))


def test_what_spark_refused_is_told_by_query_and_step() -> None:
    refused = StepResult(ProofOutcome.REFUTED, "the schema is another one")

    verdict, reasons = decide(DrillLimits(), 1.0, 1.0, (), {"counts": proof(), "joined": proof(PROVEN, refused)})

    assert verdict is DrillVerdict.FAILED
    assert reasons == ("query joined: Spark refused to start it: the schema is another one",)


def test_what_spark_was_not_asked_about_is_told_by_its_file() -> None:
    not_asked = StepResult(ProofOutcome.NOT_ASKED, "the verification reports that it is not restorable")

    verdict, reasons = decide(
        DrillLimits(), 1.0, 1.0, (), {"counts": proof(not_asked, not_asked, lacks="state/0/0/9.delta")}
    )

    assert (verdict, reasons) == (DrillVerdict.FAILED, ("counts/state/0/0/9.delta: it is not there",))


def test_no_answer_of_spark_is_neither_a_pass_nor_a_failure() -> None:
    silent = proof(
        StepResult(ProofOutcome.UNKNOWN, "Spark was not done after 600 seconds"), StepResult(ProofOutcome.NOT_ASKED)
    )

    verdict, reasons = decide(DrillLimits(), 1.0, 1.0, (), {"counts": silent})

    assert (verdict, reasons) == (DrillVerdict.UNKNOWN, ("query counts: Spark was not done after 600 seconds",))


def test_a_no_is_told_before_an_unknown() -> None:
    silent = proof(StepResult(ProofOutcome.UNKNOWN, "no memory"))

    verdict, reasons = decide(DrillLimits(max_age=1.0), 2.0, 1.0, (), {"counts": silent})

    assert verdict is DrillVerdict.FAILED
    assert len(reasons) == 1


def test_what_nobody_reads_is_cut_off() -> None:
    verdict, reasons = decide(DrillLimits(), 1.0, 1.0, ["x" * 10_000] * 30, {})

    assert verdict is DrillVerdict.FAILED
    assert max(map(len, reasons)) <= 501
    assert reasons[-1] == "and 20 more"


@pytest.mark.parametrize("wrong", [0.0, -1.0, float("nan")])
def test_a_limit_that_nothing_could_keep_to_is_refused(wrong: float) -> None:
    with pytest.raises(ConfigurationError, match="max_age"):
        DrillLimits(max_age=wrong)


def test_a_step_that_comes_again_is_added_up() -> None:
    clock = HeldClock()
    watch = Stopwatch(clock)

    for step, seconds in (("copy", 1.0), ("load", 2.0), ("load", 2.0), ("copy", 0.5)):
        watch.begin(step)
        clock.time += seconds
    watch.end()
    clock.time += 100.0

    assert (watch.seconds, watch.total) == ({"copy": 1.5, "load": 4.0}, 5.5)
