"""Asks the package: what ``verify`` says of a damaged copy."""

from __future__ import annotations

from pathlib import Path

from airflow_provider_ha.checkpoints.verify.verify import verify


_WORDS = {True: "yes", False: "no", None: "unknown"}


def verdict(checkpoint: Path, release: str) -> tuple[str, str]:
    """Return ``yes``, ``no`` or ``unknown``, and the codes of the findings; those that block have a ``!``."""
    report = verify(checkpoint, depth="full", spark_version=release)
    codes = dict.fromkeys(f"{'!' if found.blocks else ''}{found.code.value}" for found in report.findings)
    return _WORDS[report.startable], " ".join(codes)
