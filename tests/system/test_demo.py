"""The demo is the system test of the main job: a real Airflow, real kills, real data, compared row for row."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from tests.system.demo import run


@pytest.mark.system
@pytest.mark.spark
@pytest.mark.timeout(1200)
def test_the_main_job_survives_everything_and_computes_the_truth(tmp_path: Path) -> None:
    assert run(tmp_path / "demo", Console()) == 0
