"""versitygw, an S3 server in one binary: it checks signatures and creates conditionally in one step.

Built once per machine and kept: by ``tests.support.preparation``, else by the first test, under a file lock.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from airflow_provider_ha.coordination.ports import free_port
from airflow_provider_ha.testing.waiting import wait_until


VERSION = "v1.8.0"
CACHE = Path(__file__).parents[3] / "build" / "test-cache" / "versitygw"
BINARY = CACHE / f"versitygw-{VERSION}"
FAILURE = CACHE / "failed"
BUILD_TIMEOUT = 900  # seconds; 140 on two idle cores
FAILURE_COUNTS = 3600  # seconds in which a failed build is not tried again
ROOT_ACCESS_KEY = "AKIAROOTOFTHETESTS00"
ROOT_SECRET_KEY = "root-secret-of-the-tests/+0123456789abcd"


@cache
def binary() -> Path:
    """Return the server's path; builds it when it is not there. Skips the test where that is not possible."""
    if BINARY.exists():
        return BINARY
    if shutil.which("go") is None:
        pytest.skip("no versitygw: install go (1.25 or newer), or name a server with SPARK_HA_TEST_S3_ENDPOINT")
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not BINARY.exists():
            _build()
    return BINARY


@contextmanager
def versitygw(*, iam: bool = False) -> Iterator[str]:
    """Yield the URL of a running server with an empty disk.

    :param iam: Whether it has users beside the root, made with ``versitygw admin``.
    """
    program = binary()
    with tempfile.TemporaryDirectory(prefix="versitygw-", dir=CACHE) as folder:
        for name in ("data", "iam", "sidecar"):
            (Path(folder) / name).mkdir()
        port = free_port()
        command: list[str | Path] = [program, "--port", f"127.0.0.1:{port}", "--quiet"]
        command += ["--iam-dir", f"{folder}/iam"] if iam else []
        command += ["posix", "--sidecar", f"{folder}/sidecar", f"{folder}/data"]
        environment = {**os.environ, "ROOT_ACCESS_KEY": ROOT_ACCESS_KEY, "ROOT_SECRET_KEY": ROOT_SECRET_KEY}
        with (Path(folder) / "log").open("wb") as log:
            process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            wait_until(lambda: answers(port) or process.poll() is not None, timeout=30, what="versitygw")
            assert process.poll() is None, (Path(folder) / "log").read_text(encoding="utf-8")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()
            process.wait()


def add_user(endpoint: str, access_key: str, secret_key: str) -> None:
    """Make a user who may nothing by himself, on a server with users."""
    user = ["create-user", "--access", access_key, "--secret", secret_key, "--role", "user"]
    root = {"ADMIN_ACCESS_KEY": ROOT_ACCESS_KEY, "ADMIN_SECRET_KEY": ROOT_SECRET_KEY}
    command = [str(binary()), "admin", "--endpoint-url", endpoint, *user]
    subprocess.run(command, env={**os.environ, **root}, check=True, capture_output=True)


def _build() -> None:
    if FAILURE.exists() and time.time() - FAILURE.stat().st_mtime < FAILURE_COUNTS:
        pytest.skip(
            f"versitygw could not be built: {FAILURE.read_text(encoding='utf-8')} (remove {FAILURE} to try again)"
        )
    print(f"building versitygw {VERSION}, an S3 server, once for this machine: some 3 minutes", flush=True)
    with tempfile.TemporaryDirectory(prefix="build-", dir=CACHE) as folder:
        module = f"github.com/versity/versitygw/cmd/versitygw@{VERSION}"
        command = ["nice", "-n", "19", "go", "install", "-ldflags", "-s -w", module]
        try:
            environment = {**os.environ, "GOBIN": folder}
            subprocess.run(
                command, env=environment, cwd=folder, check=True, capture_output=True, text=True, timeout=BUILD_TIMEOUT
            )
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            output = error.stderr if isinstance(error.stderr, str) else ""
            reason = (output.strip().splitlines() or [type(error).__name__])[-1]
            FAILURE.write_text(reason, encoding="utf-8")
            pytest.skip(f"versitygw could not be built: {reason}")
        (Path(folder) / "versitygw").replace(BINARY)


def answers(port: int) -> bool:
    """Whether a server listens on a port of the loopback."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
