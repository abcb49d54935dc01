"""versitygw, an S3 server in one binary: it checks signatures and creates conditionally in one step."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from airflow_provider_ha.coordination.embedded import free_port
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.go_program import GoProgram


VERSION = "v1.8.0"
PROGRAM = GoProgram(
    "versitygw",
    "github.com/versity/versitygw/cmd/versitygw",
    VERSION,
    otherwise=", or name a server with SPARK_HA_TEST_S3_ENDPOINT",
)
CACHE = PROGRAM.cache
ROOT_ACCESS_KEY = "AKIAROOTOFTHETESTS00"
ROOT_SECRET_KEY = "root-secret-of-the-tests/+0123456789abcd"


@cache
def binary() -> Path:
    """Return the server's path; builds it when it is not there. Skips the test where that is not possible."""
    return PROGRAM.built()


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


def answers(port: int) -> bool:
    """Whether a server listens on a port of the loopback."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
