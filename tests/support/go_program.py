"""Programs in Go that tests need: built once per machine, and kept in the test cache.

``tests.support.preparation`` or the first test builds, under a file lock; the others wait for the same program.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.ivy import CACHE


BUILD_TIMEOUT = 1500  # seconds; versitygw takes 140 on two idle cores, promtool 540 beside other work
FAILURE_COUNTS = 3600  # seconds in which a failed build is not tried again


@dataclass(frozen=True, slots=True)
class GoProgram:
    """A program of a module.

    :param package: What ``go install`` takes, without the release.
    :param otherwise: What helps without Go besides installing it; empty when nothing does.
    """

    name: str
    package: str
    version: str
    otherwise: str = ""

    @property
    def cache(self) -> Path:
        """Its own folder in the test cache."""
        return CACHE / self.name

    @property
    def path(self) -> Path:
        """Where it is once it is built."""
        return self.cache / f"{self.name}-{self.version}"

    def built(self) -> Path:
        """Return the program; builds it when it is not there. Skips the test where that is not possible."""
        if self.path.exists():
            return self.path
        if shutil.which("go") is None:
            pytest.skip(f"no {self.name}: install go (1.25 or newer){self.otherwise}")
        self.cache.mkdir(parents=True, exist_ok=True)
        with (self.cache / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not self.path.exists():
                self._build()
        return self.path

    def _build(self) -> None:
        failure = self.cache / "failed"
        if failure.exists() and time.time() - failure.stat().st_mtime < FAILURE_COUNTS:
            said = failure.read_text(encoding="utf-8")
            pytest.skip(f"{self.name} could not be built: {said} (remove {failure} to try again)")
        print(f"building {self.name} {self.version} once for this machine: minutes", flush=True)
        with tempfile.TemporaryDirectory(prefix="build-", dir=self.cache) as folder:
            command = ["nice", "-n", "19", "go", "install", "-ldflags", "-s -w", f"{self.package}@{self.version}"]
            environment = {**os.environ, "GOBIN": folder}
            try:
                subprocess.run(
                    command,
                    env=environment,
                    cwd=folder,
                    check=True,
                    capture_output=True,
                    text=True,
                    timeout=BUILD_TIMEOUT,
                )
            except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
                output = error.stderr if isinstance(error.stderr, str) else ""
                reason = (output.strip().splitlines() or [type(error).__name__])[-1]
                failure.write_text(reason, encoding="utf-8")
                pytest.skip(f"{self.name} could not be built: {reason}")
            (Path(folder) / self.name).replace(self.path)
