"""Leaders that are killed, frozen and cut off for ten minutes, and what the checker says of their histories.

``SPARK_HA_SOAK_SECONDS`` sets how long (default 600), ``SPARK_HA_SOAK_SEED`` repeats the faults of a run.
``make proof SUITE=soak`` goes on for half an hour.
"""

from __future__ import annotations

import gc
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab.soak.soak import endure
from tests.support.leadership.checker import counts


SECONDS = float(os.environ.get("SPARK_HA_SOAK_SECONDS", "600"))
SEED = int(os.environ.get("SPARK_HA_SOAK_SEED", str(random.randrange(2**32))))


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    gc.collect()


@pytest.mark.long
@pytest.mark.soak
@pytest.mark.timeout(SECONDS + 600)
def test_leaders_keep_every_invariant_whatever_happens_to_them(folder: Path, tell: Callable[[str], None]) -> None:
    endured = endure(folder, SECONDS, SEED)

    tell(endured.report())
    assert endured.violations == [], f"seed {SEED}, histories in {folder}"
    assert counts(endured.history)["committed"] > 0
