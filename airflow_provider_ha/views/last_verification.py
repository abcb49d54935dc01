"""The last verification of a job, with what each finding means."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from airflow_provider_ha.checkpoints.verify.codes import Code
from airflow_provider_ha.checkpoints.verify.findings import Finding
from airflow_provider_ha.views.view import View


if TYPE_CHECKING:
    from airflow_provider_ha.jobs.history.last_verification import KeptFinding, LastVerification


class KeptFindingView(View):
    """One finding.

    :param code: Its code.
    :param file: The file, below its query.
    :param blocks: Whether it keeps Spark from starting; ``null`` when that is not known.
    :param meaning: Its meaning for a decision; empty for a code of a newer release.
    :param next_step: How to resolve it; the same.
    """

    code: str
    file: str
    blocks: bool | None
    meaning: str
    next_step: str


class LastVerificationView(View):
    """The last verification.

    :param source: ``checkpoint-<n>`` or ``savepoint-<id>``.
    :param taken_at: When that was taken.
    :param at: When the verification was over.
    :param depth: ``quick``, ``full`` or ``prove``.
    :param spark_version: The release that it was judged for; empty for the installed one.
    :param restorable: Whether it can be restored; ``null`` when Spark gave no answer.
    :param problem: The first thing that keeps it from being restored; empty when nothing does.
    :param findings: Those that keep Spark from starting first.
    :param findings_left_off: How many more there were.
    :param proofs: Query -> why Spark has not proven it; empty when it has.
    :param requested_by: The requester.
    """

    source: str
    taken_at: datetime
    at: datetime
    depth: str
    spark_version: str
    restorable: bool | None
    problem: str
    findings: tuple[KeptFindingView, ...]
    findings_left_off: int
    proofs: dict[str, str]
    requested_by: str


def last_verification_view(found: LastVerification) -> LastVerificationView:
    """Return what a page shows of a verification."""
    shown = {name: getattr(found, name) for name in LastVerificationView.model_fields if name != "findings"}
    return LastVerificationView(**shown, findings=tuple(_finding(each) for each in found.findings))


def _finding(kept: KeptFinding) -> KeptFindingView:
    try:
        known = Finding(Code(kept.code), kept.file, None, "", blocks=kept.blocks)
    except ValueError:
        return KeptFindingView(code=kept.code, file=kept.file, blocks=kept.blocks, meaning="", next_step="")
    return KeptFindingView(
        code=kept.code, file=kept.file, blocks=kept.blocks, meaning=known.meaning, next_step=known.next_step
    )
