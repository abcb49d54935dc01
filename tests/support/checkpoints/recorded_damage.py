"""What releases really wrote, unpacked, damaged and judged: shared by the tests of the rules of a verification."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from airflow_provider_ha.checkpoints.spark.checkpoint_layout import progress
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.verify.verification_report import VerificationReport


# Returns one of the checkpoints that a release wrote: release, shape.
Recorded = Callable[[str, str], Path]


def told(report: VerificationReport) -> dict[str, bool | None]:
    """Return what was found and where, and whether it blocks."""
    return {f"{finding.code.value} {finding.path}": finding.blocks for finding in report.findings}


def rewrite(path: Path, content: bytes) -> None:
    """Give a file another content, without the hidden checksum that would tell."""
    (path.parent / f".{path.name}.crc").unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def newest(checkpoint: Path) -> int:
    """Return the newest planned batch."""
    return progress(LocalTree(checkpoint)).planned


def without(checkpoint: Path, *batches: int, logs: tuple[str, ...] = ("offsets", "commits")) -> Path:
    """Remove the entries of batches."""
    for log in logs:
        for batch in batches:
            for name in (str(batch), f".{batch}.crc"):
                (checkpoint / log / name).unlink(missing_ok=True)
    return checkpoint
