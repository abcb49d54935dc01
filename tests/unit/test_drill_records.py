"""The records of drills are read as often as is needed: those that are asked for, each once."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.jobs.verification.verification_records import Drill, DrillCache, DrillStore, DrillVerdict
from airflow_provider_ha.storage.keys import JobKeys
from tests.fake.memory_store import MemoryStore
from tests.support.clusters.jobs_helpers import NOON


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
