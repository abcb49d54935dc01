"""Asks the package: what ``verify`` says of a damaged copy, or of the batch that it is to be restored to."""

from __future__ import annotations

from pathlib import Path

from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.verify.verification import verify
from airflow_provider_ha.checkpoints.verify.verification_report import VerificationReport
from lab.verdicts.cases import Case


_WORDS = {True: "yes", False: "no", None: "unknown"}


def verdict(case: Case, checkpoint: Path) -> tuple[str, str]:
    """Return ``yes``, ``no`` or ``unknown``, and the codes of what was found; those that block have a ``!``.

    :param checkpoint: The damaged copy.
    """
    report = verify(LocalTree(checkpoint), depth="full", spark_version=case.release)
    if case.damage.restored:
        return _of_batch(report, case.newest)
    codes = dict.fromkeys(f"{'!' if found.blocks else ''}{found.code.value}" for found in report.findings)
    return _WORDS[report.startable], " ".join(codes)


def _of_batch(report: VerificationReport, batch: int) -> tuple[str, str]:
    for found in report.batches:
        if found.batch == batch:
            codes = " ".join(dict.fromkeys(f"!{reason.code.value}" for reason in found.reasons))
            return ("yes" if found.restorable else "unknown" if found.provable else "no"), codes
    return "no", ""
