"""A simulated year goes on after its process was killed, wherever that was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_provider_ha.testing.waiting import wait_until
from lab.year import SimulatedYear
from tests.support.checkpoints.simulated_year import Progress, Year


YEAR = Year(batches=480, losses=24, savepoints=12, per_checkpoint=5)
_RUN = """
import sys
from pathlib import Path
from lab.tests.test_interrupted_year import YEAR, SimulatedYear

SimulatedYear(YEAR).run(Path(sys.argv[1]), print)
"""


def progress(folder: Path) -> Progress:
    """Return how far it is."""
    file = folder / "progress.json"
    return Progress.model_validate_json(file.read_bytes()) if file.exists() else Progress()


@pytest.mark.hours
def test_a_killed_year_continues_and_is_complete(tmp_path: Path) -> None:
    for steps in (5, 20):
        with subprocess.Popen([sys.executable, "-c", _RUN, str(tmp_path)], env=os.environ) as simulating:
            wait_until(lambda: progress(tmp_path).steps >= steps, timeout=100, what=f"step {steps}")  # noqa: B023
            simulating.send_signal(signal.SIGKILL)

    proof = SimulatedYear(YEAR).run(tmp_path, lambda _: None)

    assert [row[0] for row in proof.rows] == [*map(str, range(1, 13)), "ratio"]
    assert proof.remark == "3 processes simulated it one after the other."
    assert progress(tmp_path).batch >= YEAR.batches
