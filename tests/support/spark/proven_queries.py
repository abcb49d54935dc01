"""Scripts whose queries a proof starts, and the files that it may not change."""

from __future__ import annotations

import hashlib
from pathlib import Path

from airflow_provider_ha.checkpoints.verify.proof_protocol import Application
from tests.support.spark.corpus import corpus


SCRIPT = Path(__file__).resolve().parents[2] / "apps" / "prove.py"


def fingerprint(directory: Path) -> dict[str, tuple[int, int, int, int, str]]:
    """Return what tells of every file whether a process wrote it, linked it or put another in its place."""
    found = {}
    for path in sorted(directory.rglob("*")):
        status = path.lstat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[str(path.relative_to(directory))] = (
            status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_nlink, content,
        )  # fmt: skip
    return found


def application(shape: str, checkpoint: Path, trace: Path, kind: str) -> Application:
    """Return the script of the test, over the input of *shape*."""
    trace.mkdir(exist_ok=True)
    return Application(script=SCRIPT, arguments=(str(corpus() / shape / "input"), str(checkpoint), str(trace), kind))
