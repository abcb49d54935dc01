"""The page about savepoints without Airflow is a script that works, and Spark goes on from what it makes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import blocks_of
from tests.support.checkpoints.portable_helpers import checkpoint
from tests.support.spark import recorded_job


PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "savepoints-without-airflow.md"


@pytest.mark.long
@pytest.mark.hours
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_the_commands_work_in_order_and_spark_starts_from_the_result(tmp_path: Path) -> None:
    recorded_job.copy_live(tmp_path / "checkpoints")
    recorded_job.copy_output(tmp_path / "out")
    checkpoint(tmp_path / "checkpoints" / "daily")
    lines = [
        line
        for block in blocks_of(PAGE)
        if block.language == "bash"
        for line in block.text.splitlines()
        if not line.startswith("pip install") and " orders" not in line  # a managed job: tested with the command
    ]
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("AIRFLOW", "SPARK_HA"))}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"

    done = subprocess.run(
        ["bash", "-c", "\n".join(["set -euo pipefail", *lines])],
        cwd=tmp_path,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )

    assert len(lines) >= 7
    assert done.returncode == 0, done.stdout + done.stderr
    restored = {"checkpoint": tmp_path / "restored" / recorded_job.QUERY, "out": tmp_path / "out"}
    recorded_job.continue_query([restored], tmp_path)
    recorded_job.assert_exact(tmp_path / "out", recorded_job.FILES + recorded_job.MORE)
