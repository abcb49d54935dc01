"""A running driver of the zombie matrix, seen from outside: its processes, and what it says."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from airflow_provider_ha.testing.waiting import wait_until
from lab.zombie import driver_program
from tests.support.spark.class_archive import java_options


ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 400.0  # seconds
_EXECUTOR = "CoarseGrainedExecutorBackend"


@dataclass
class Driver:
    """One driver with its executors, which plays one part after the other.

    :param folder: Holds its commands.
    :ivar turns: How many parts it was given.
    """

    folder: Path
    process: subprocess.Popen[bytes]
    turns: int = 0

    @property
    def turn(self) -> Path:
        """Folder of its part."""
        return self.folder / f"turn-{self.turns}"

    def await_ready(self) -> None:
        """Wait until its session is up."""
        self.await_this(lambda: driver_program.told(self.folder, "ready"), "a session")

    def go(self, part: dict[str, Any]) -> None:
        """Let it lead."""
        self.turns += 1
        self.turn.mkdir()
        driver_program.say(self.turn, "go", part)

    def stop(self) -> dict[str, Any]:
        """Have it stop its query, and return what it saw."""
        driver_program.say(self.turn, "stop", True)
        return self.answer()

    def answer(self) -> dict[str, Any]:
        """Wait for the end of its part, and return what it saw."""
        self.await_this(self.answered, "an answer")
        found = self.answered()
        assert found is not None
        return found

    def answered(self) -> dict[str, Any] | None:
        """What it saw; ``None`` while its part goes on."""
        found = driver_program.told(self.turn, "answer")
        return None if found is None else dict(found)

    def await_this(self, predicate: Callable[[], object], what: str, interval: float = 0.05) -> None:
        """Wait for something that only a driver does that has not ended."""

        def check() -> bool:
            if predicate():
                return True
            assert self.alive, f"no {what}: {self.text()}"
            return False

        wait_until(check, timeout=PATIENCE, what=what, interval=interval)

    @property
    def alive(self) -> bool:
        """Whether its process goes on."""
        return self.process.poll() is None

    def text(self) -> str:
        """Return the end of what it has said."""
        return f"{self.answered()}\n{(self.folder / 'log').read_text(errors='replace')[-6000:]}"

    def programs(self) -> list[psutil.Process]:
        """The driver itself: its Python and its JVM."""
        python = psutil.Process(self.process.pid)
        return [python, *(child for child in python.children() if child.name() == "java")]

    def executors(self) -> list[psutil.Process]:
        """Its executors."""
        every = psutil.Process(self.process.pid).children(recursive=True)
        return [process for process in every if _EXECUTOR in _command(process)]

    def kill(self) -> None:
        """Leave nothing of it, its executors included."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def start(folder: Path, conf: dict[str, str]) -> Driver:
    """Start one in *folder*; its caller kills it."""
    folder.mkdir(parents=True)
    quick = {f"spark.{who}.extraJavaOptions": java_options() for who in ("driver", "executor")}
    driver_program.say(folder, "conf", quick | conf)
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(ROOT)}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, driver_program.__file__, folder],
            cwd=folder,  # local-cluster leaves its work directory there
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    return Driver(folder, process)


def suspend(processes: Sequence[psutil.Process]) -> None:
    """Stop processes as they are."""
    for process in processes:
        process.suspend()


def resume(processes: Sequence[psutil.Process]) -> None:
    """Let them go on."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.resume()


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
