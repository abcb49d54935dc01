"""Random schedules of candidates, zombies, readers and collectors; after each step the invariants hold.

Our own seeded scheduler and not a state machine of hypothesis: an actor stops in the middle of a call, so a step is not
a function that begins and ends; the counts are over all schedules of a run; and one number replays a failure. What
hypothesis would add, the shrinking, is small for schedules of fifty steps.

``SPARK_HA_SEED=n`` replays one schedule. ``SPARK_HA_SCHEDULES_SECONDS`` sets how long the long test goes on (default
900). ``make proof SUITE=schedules`` goes on for an hour.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.fake.chaos import play
from tests.fake.random_schedules import play_for, play_reporting
from tests.support.fake import Fault, Outcome


SCHEDULES = 250
pytestmark = pytest.mark.timeout(600)  # ten seconds of CPU; a busy machine takes many times that
SEED = os.environ.get("SPARK_HA_SEED")
AT_LEAST = 20
EVENTS = (
    *(f"Fault: {fault.value}" for fault in Fault),
    *(f"Outcome: {outcome.value}" for outcome in Outcome),
    "granted",
    "released",
    "fenced",
    "lease or session over",
    "nothing sent without a lease",
    "checkpoint added",
    "checkpoint subsumed",
    "lease",
    "read under a lease",
)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Every loss is logged, and losing is what these schedules are about."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def report(total: Counter[str], schedules: int, began: float) -> str:
    counted = [f"{count:8d}  {event}" for event, count in sorted(total.items())]
    return "\n".join([f"{schedules} schedules in {time.monotonic() - began:.1f} s", *counted])


@pytest.mark.slow
def test_no_schedule_breaks_an_invariant(tmp_path: Path, tell: Callable[[str], None]) -> None:
    seeds = [int(SEED)] if SEED else range(SCHEDULES)
    began = time.monotonic()
    total: Counter[str] = Counter()
    for seed in seeds:
        total += play_reporting(seed, tmp_path / str(seed))
    tell(report(total, len(seeds), began))

    rare = {event: total[event] for event in EVENTS if total[event] < AT_LEAST}
    assert SEED or not rare, f"the schedules hardly tried: {rare}"


@pytest.mark.parametrize("seed", [3, 77])
def test_a_seed_replays_exactly(tmp_path: Path, seed: int) -> None:
    first = play(seed, tmp_path / "first")
    second = play(seed, tmp_path / "second")

    assert first == second
    assert first[1]


@pytest.mark.long
@pytest.mark.apart
@pytest.mark.timeout(0)
def test_no_schedule_breaks_an_invariant_for_long(tmp_path: Path, tell: Callable[[str], None]) -> None:
    seconds = float(os.environ.get("SPARK_HA_SCHEDULES_SECONDS", "900"))
    began = time.monotonic()
    with ThreadPoolExecutor(1, initializer=step_back) as thread:
        total, schedules = thread.submit(play_for, seconds, tmp_path).result()
    tell(report(total, schedules, began))


def step_back() -> None:
    """Let this thread take what others leave of the processor: tests beside it have deadlines, schedules have none."""
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)
