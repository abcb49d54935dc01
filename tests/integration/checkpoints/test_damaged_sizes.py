"""Files of 30 GiB that hold nothing: every command says so within 3 GiB of memory. Sparse files cost no disk."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.spark.recorded_job import QUERY, copy_live


pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
SIZE = 30 << 30
COMMANDS = "tests.support.checkpoints.bounded_commands"
ROOT = Path(__file__).parents[3]


def run_all(*commands: list[str]) -> list[tuple[int, str, str]]:
    """Return (exit code, output, unexpected exception) of each command, of a child whose memory is bounded."""
    command = [sys.executable, "-m", COMMANDS, json.dumps(commands)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    return [(code, output, raised) for code, output, raised in json.loads(done.stdout.splitlines()[-1])]


def newest(directory: Path) -> Path:
    return max((path for path in directory.iterdir() if path.stem.isdigit()), key=lambda path: int(path.stem))


def enlarge(path: Path) -> None:
    """Put a sparse file in the place of one that may be linked elsewhere."""
    path.unlink()
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    path.touch()
    os.truncate(path, SIZE)


def test_a_huge_entry_of_a_log_is_a_finding_of_every_command(checkpoint: Path, tmp_path: Path) -> None:
    whole = copy_live(tmp_path / "whole") / QUERY
    enlarge(newest(checkpoint / "commits"))
    for log in ("offsets", "sources/0"):
        enlarge(newest(checkpoint / log))

    verified, compared, planned, created, adopted = run_all(
        ["checkpoint", "verify", str(checkpoint), "--json"],
        ["checkpoint", "diff", str(whole), str(checkpoint)],
        ["checkpoint", "plan", str(checkpoint)],
        ["savepoint", "create", str(checkpoint), "--to", str(tmp_path / "saved")],
        ["look", str(checkpoint)],
    )

    assert [raised for _, _, raised in (verified, compared, planned, created, adopted)] == [""] * 5
    assert "it has 32,212,254,720 bytes" in verified[1]
    assert adopted[0] == 1
    assert "it has 32,212,254,720 bytes" in adopted[1]


def test_a_huge_id_of_a_query_keeps_every_command_from_going_on(checkpoint: Path, tmp_path: Path) -> None:
    enlarge(checkpoint / "metadata")

    results = run_all(
        ["checkpoint", "verify", str(checkpoint)],
        ["checkpoint", "verify", str(checkpoint), "--depth", "prove"],
        ["checkpoint", "plan", str(checkpoint)],
        ["savepoint", "create", str(checkpoint), "--to", str(tmp_path / "saved")],
        ["look", str(checkpoint)],
    )

    assert [(code != 0, raised) for code, _, raised in results] == [(True, "")] * 5
    assert not (tmp_path / "saved").exists()
