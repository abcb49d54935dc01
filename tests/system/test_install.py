"""The driver side installs and works on a host that has neither Airflow nor Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


ROOT = Path(__file__).parents[2]


@pytest.mark.long
@pytest.mark.timeout(600)
def test_without_extras_there_is_no_airflow_and_the_command_works(tmp_path: Path) -> None:
    environment = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    constraints = str(ROOT / "constraints.txt")
    subprocess.run(
        [str(environment / "bin" / "pip"), "install", "--quiet", "--constraint", constraints, str(ROOT)], check=True
    )
    (tmp_path / "checkpoint").mkdir()

    imported = subprocess.run(
        [str(environment / "bin" / "python"), "-c", "import airflow_provider_ha.driver.supervisor, airflow"],
        capture_output=True,
        text=True,
        check=False,
    )
    verified = subprocess.run(
        [str(environment / "bin" / "spark-ha"), "checkpoint", "verify", str(tmp_path / "checkpoint"), "--json"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert "No module named 'airflow'" in imported.stderr
    assert verified.returncode == 0
    assert '"EMPTY"' in verified.stdout
