"""Every script of ``benchmarks/`` still runs: what measures nothing but itself breaks without a sound."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "benchmarks"
SCRIPTS = sorted(path.stem for path in FOLDER.glob("*.py") if '__name__ == "__main__"' in path.read_text("utf-8"))
# What they share; a file that is neither here nor a script is a script that nothing starts.
SHARED = ["__init__", "clones", "counted", "failover_sides", "shared"]
# Minutes each, of a Spark per round and side, also with --quick: `make bench` runs them.
HEAVY = [
    "batch_cost",
    "class_archives",
    "component_batches",
    "cost",
    "failover",
    "host_loss",
    "operations",
]
PAGE = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
# How the scripts that need a server of versitygw end where it cannot be built.
SKIPPED = "Skipped: "


def test_every_file_is_a_script_or_shared_by_them() -> None:
    assert set(HEAVY) <= set(SCRIPTS)
    assert sorted(path.stem for path in FOLDER.glob("*.py")) == sorted([*SCRIPTS, *SHARED])


@pytest.mark.parametrize("script", SCRIPTS)
def test_every_script_has_the_options_of_all_scripts(script: str) -> None:
    """A script that does not look at its command line would measure for an hour below."""
    text = (FOLDER / f"{script}.py").read_text(encoding="utf-8")

    assert any(call in text for call in ("effort(__doc__", "repeat(__doc__", "command(__doc__"))


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_page_of_the_figures_has_every_script(script: str) -> None:
    assert f"benchmarks/{script}.py" in PAGE


@pytest.mark.hours
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("script", [script for script in SCRIPTS if script not in HEAVY])
def test_a_script_runs_to_its_end_and_prints_what_it_measured(script: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{script}", "--quick"],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"},
        timeout=1700,
    )

    skipped = [line for line in done.stderr.splitlines() if line.startswith(SKIPPED)]
    if done.returncode and skipped:
        pytest.skip(skipped[-1])
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.strip()
