"""Temporary files of a test run in memory: only with room for them, and removed after a run that passed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from airflow_provider_ha.testing.waiting import wait_until
from tests.support import in_memory


PROGRAM = """
import os, pathlib, sys
place = pathlib.Path(os.environ.get("TMPDIR", ""))
pathlib.Path(sys.argv[1]).write_text(f"{place} {(place / 'old').exists()}")
sys.exit(int(sys.argv[2]))
"""


@pytest.fixture(autouse=True)
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with as much room as is needed, in the place of the one in memory."""
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setattr(in_memory, "_MEMORY", tmp_path)
    monkeypatch.setattr(in_memory, "_ROOM", 0)
    return tmp_path


def run(tmp_path: Path, code: int) -> int:
    """Run a command that ends with *code*, and says in a file what its environment names."""
    return in_memory.main([sys.executable, "-c", PROGRAM, str(tmp_path / "told"), str(code)])


def test_a_command_finds_an_empty_directory_that_goes_when_it_has_passed(memory: Path) -> None:
    first = in_memory.scratch()
    assert first is not None
    (first / "old").touch()

    code = run(memory, 0)

    assert (code, (memory / "told").read_text().split()) == (0, [str(first), "False"])
    assert not first.exists()


def test_the_files_of_a_run_that_failed_stay(memory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = run(memory, 3)

    named = (memory / "told").read_text().split()[0]
    assert (code, Path(named).exists()) == (3, True)
    assert named in capsys.readouterr().err


# In another directory than that of the run that this test is a part of.
ELSEWHERE = """
import pathlib, sys
from tests.support import in_memory
in_memory._MEMORY, in_memory._ROOM = pathlib.Path(sys.argv[1]), 0
sys.exit(in_memory.main(sys.argv[2:]))
"""
STUBBORN = """
import pathlib, signal, sys, time
ended = []
signal.signal(signal.SIGINT, lambda *_: ended.append(1))
pathlib.Path(sys.argv[1]).touch()
while not ended:
    time.sleep(0.01)
time.sleep(0.5)  # longer than subprocess.run waits after an interrupt
sys.exit(7)
"""


def test_a_command_that_is_interrupted_ends_by_itself(memory: Path) -> None:
    stubborn = [sys.executable, "-c", STUBBORN, str(memory / "ready")]
    command = [sys.executable, "-c", ELSEWHERE, str(memory), *stubborn]
    process = subprocess.Popen(command, cwd=Path(__file__).parents[2], start_new_session=True)
    wait_until((memory / "ready").exists, timeout=60, what="the command")

    os.killpg(process.pid, signal.SIGINT)

    assert process.wait(60) == 7


@pytest.mark.parametrize("lacks", ["directory", "room", "memory"])
def test_without_room_files_are_where_they_are_otherwise(
    memory: Path, monkeypatch: pytest.MonkeyPatch, lacks: str
) -> None:
    if lacks == "directory":
        monkeypatch.setattr(in_memory, "_MEMORY", memory / "none")
    elif lacks == "room":
        monkeypatch.setattr(in_memory, "_ROOM", 1 << 60)
    else:
        monkeypatch.setattr(in_memory, "_ROOM", 1)
        monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=1))

    assert in_memory.scratch() is None
    assert run(memory, 0) == 0
    assert (memory / "told").read_text().split()[0] == "."
