"""Programs of Spark on S3 through S3A, with the profile of the documentation."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.docs.blocks import blocks_of
from tests.support.s3.s3_server import S3Access


ROOT = Path(__file__).parents[3]
APPS = ROOT / "tests" / "apps"
IVY = ROOT / "build" / "test-cache" / "ivy"
ROWS_PER_BATCH = 10


def write_conf(folder: Path, s3: S3Access, endpoint: str) -> Path:
    """Write the profile of the page, with a server that exists and what a test needs."""
    page = ROOT / "docs" / "how-to" / "s3.md"
    (block,) = (block for block in blocks_of(page) if block.title == "s3a.conf")
    conf = dict(line.split(" ", 1) for line in block.text.splitlines())
    conf |= {
        "spark.hadoop.fs.s3a.endpoint": endpoint,
        "spark.hadoop.fs.s3a.access.key": s3.access_key,
        "spark.hadoop.fs.s3a.secret.key": s3.secret_key,
        "spark.jars.ivy": str(IVY),
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }
    path = folder / "conf.json"
    path.touch(mode=0o600)
    path.write_text(json.dumps(conf), encoding="utf-8")
    return path


@contextmanager
def running(log: Path, *command: object) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program of ``tests/apps`` with its JVM; both are gone afterwards."""
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, *map(str, command)],
            stdout=subprocess.PIPE,
            stderr=output,
            env=environment,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        kill(process)
        assert process.stdout is not None
        process.stdout.close()


def kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
