"""Random schedules one after the other, and what they count: for a test of seconds and for a proof of an hour."""

from __future__ import annotations

import secrets
import shutil
import time
from collections import Counter
from pathlib import Path

from tests.fake.chaos import play


def play_reporting(seed: int, work_path: Path) -> Counter[str]:
    """Play one schedule, and return how often each event occurred.

    :raises AssertionError: An invariant does not hold; the text names the seed.
    """
    try:
        counts, _ = play(seed, work_path)
    except AssertionError as error:
        raise AssertionError(f"{error}; replay it with SPARK_HA_SEED={seed}") from error
    finally:
        shutil.rmtree(work_path, ignore_errors=True)
    return counts


def play_for(seconds: float, work_path: Path) -> tuple[Counter[str], int]:
    """Play schedules of random seeds for *seconds*, and return the counts of all of them and their number.

    :raises AssertionError: As :func:`play_reporting`.
    """
    end, schedules = time.monotonic() + seconds, 0
    total: Counter[str] = Counter()
    while time.monotonic() < end:
        total += play_reporting(secrets.randbits(48), work_path / str(schedules))
        schedules += 1
    return total, schedules
