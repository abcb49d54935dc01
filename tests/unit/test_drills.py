"""Drills: phases, records and verdict."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from airflow_provider_ha.checkpoints.verify.codes import Code
from airflow_provider_ha.checkpoints.verify.proof_protocol import (
    Application,
    ProofEvent,
    ProofMessage,
    ProofRequest,
    StateReading,
)
from airflow_provider_ha.checkpoints.verify.proof_result import Proof, ProofOutcome, StepResult
from airflow_provider_ha.checkpoints.verify.verification_report import BatchVerdict, Reason, VerificationReport
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.jobs.verification.job_drill import DrillLimits, DrillPhases, Stopwatch, decide
from airflow_provider_ha.jobs.verification.spark_proof import ProofProgress, ProofStep, after
from airflow_provider_ha.jobs.verification.verification_records import Drill, DrillCache, DrillStore, DrillVerdict
from airflow_provider_ha.storage.keys import JobKeys
from tests.fake.memory_store import MemoryStore
from tests.support.clusters.coordination_helpers import HeldClock
from tests.support.clusters.jobs_helpers import NOON


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


KEYS = JobKeys("flights")


class SteppingClock(SystemClock):
    """A minute passes with each look."""

    def __init__(self) -> None:
        self.at = NOON

    def now(self) -> datetime:
        self.at += timedelta(minutes=1)
        return self.at


class Counted(MemoryStore):
    """Tells which objects were read."""

    def __init__(self) -> None:
        self.clock = SteppingClock()
        super().__init__(self.clock)
        self.reads: list[str] = []

    def read(self, key: str) -> bytes:
        self.reads.append(key)
        return super().read(key)


@pytest.fixture
def store() -> Counted:
    """Drills 0 to 9, recorded in that order."""
    made = Counted()
    for number in range(10):
        record(made, str(number))
    return made


def record(store: Counted, drill_id: str, *, verdict: DrillVerdict = DrillVerdict.PASSED) -> None:
    DrillStore(store, KEYS).add(
        Drill(
            drill_id=drill_id,
            job_id="flights",
            source="checkpoint-1",
            taken_at=NOON,
            cut={},
            size=1,
            age_seconds=1.0,
            started_at=store.clock.now(),
            seconds={},
            total_seconds=1.0,
            verdict=verdict,
            spark_version="4.2.0",
            requested_by="test",
        )
    )


def ids(drills: list[Drill]) -> list[str]:
    return [drill.drill_id for drill in drills]


def test_only_so_many_drills_are_read_as_are_asked_for(store: Counted) -> None:
    found, _ = DrillStore(store, KEYS).list(3)

    assert ids(found) == ["9", "8", "7"]
    assert sorted(store.reads) == [KEYS.drill(each) for each in "789"]


def test_all_drills_are_read_by_default(store: Counted) -> None:
    found, _ = DrillStore(store, KEYS).list()

    assert ids(found) == list("9876543210")


def test_what_was_read_before_is_not_read_again(store: Counted) -> None:
    known = DrillCache(100)
    DrillStore(store, KEYS, known).list(3)
    record(store, "new")
    store.reads.clear()

    found, _ = DrillStore(store, KEYS, known).list(3)

    assert ids(found) == ["new", "9", "8"]
    assert store.reads == [KEYS.drill("new")]


def test_a_record_of_a_job_that_was_made_again_is_another_one(store: Counted) -> None:
    known = DrillCache(100)
    DrillStore(store, KEYS, known).list(1)
    store.delete(KEYS.drill("9"))
    record(store, "9", verdict=DrillVerdict.FAILED)

    found, _ = DrillStore(store, KEYS, known).list(1)

    assert [drill.verdict for drill in found] == [DrillVerdict.FAILED]


def test_no_more_records_are_kept_than_agreed_and_those_that_were_asked_for_last_stay(store: Counted) -> None:
    known = DrillCache(3)
    records = DrillStore(store, KEYS, known)
    records.list(3)
    records.list(1)
    record(store, "new")
    records.list(1)
    store.reads.clear()

    records.list(3)

    assert store.reads == [KEYS.drill("8")], "the one that was not asked for since"


def test_a_record_that_cannot_be_read_is_read_again(store: Counted) -> None:
    known = DrillCache(100)
    store.write(KEYS.drill("broken"), b"{}")

    first, again = (DrillStore(store, KEYS, known).list(1) for _ in range(2))

    assert [each.name for each in first[1]] == [each.name for each in again[1]] == [KEYS.drill("broken")]


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
