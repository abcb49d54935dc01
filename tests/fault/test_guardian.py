"""A supervisor on a cluster ends with the process that started it, with real processes and real signals."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from airflow_provider_ha.testing.waiting import wait_until


SUPERVISOR = """
import os, signal, sys, time
from pathlib import Path
from airflow_provider_ha.host.engines.standalone_arrival import bind_to_starter
def end(number, frame):
    Path(sys.argv[1], "ended").write_text(str(number))
    os._exit(0)
signal.signal(signal.SIGTERM, end)
bind_to_starter()
Path(sys.argv[1], "bound").write_text(str(os.getpid()))
while True:
    time.sleep(0.5)  # short: Python calls no handler in a wait that began just after the signal
"""
STARTER = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", sys.argv[2], sys.argv[1]], stdin=subprocess.PIPE)
time.sleep(600)
"""
PATIENCE = 60.0


@pytest.fixture
def starter(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """What plays the JVM; its supervisor is bound to it."""
    with subprocess.Popen([sys.executable, "-c", STARTER, str(tmp_path), SUPERVISOR]) as process:
        wait_until((tmp_path / "bound").exists, timeout=PATIENCE, what="the supervisor")
        yield process
        process.kill()


def supervisor(directory: Path) -> psutil.Process:
    return psutil.Process(int((directory / "bound").read_text()))


def ended(directory: Path) -> str:
    wait_until((directory / "ended").exists, timeout=PATIENCE, what="the end of the supervisor")
    return (directory / "ended").read_text()


def test_a_supervisor_is_asked_to_end_when_its_jvm_is_killed(starter: subprocess.Popen[bytes], tmp_path: Path) -> None:
    starter.kill()

    assert ended(tmp_path) == str(int(signal.SIGTERM))


def test_a_supervisor_that_is_stopped_is_continued_when_its_jvm_is_killed(
    starter: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    frozen = supervisor(tmp_path)
    frozen.send_signal(signal.SIGSTOP)
    wait_until(lambda: frozen.status() == psutil.STATUS_STOPPED, timeout=PATIENCE, what="the stop")

    starter.kill()

    assert ended(tmp_path) == str(int(signal.SIGTERM))


def test_a_supervisor_whose_jvm_has_ended_before_it_was_bound_ends_at_once(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", SUPERVISOR, str(tmp_path)], stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.close()

        assert ended(tmp_path) == str(int(signal.SIGTERM))
