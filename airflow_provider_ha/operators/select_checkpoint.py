"""Find the latest checkpoint that can be restored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_ha.airflow_side.compat.sdk import AirflowFailException
from airflow_provider_ha.api.documents.restore_plan import selection_view
from airflow_provider_ha.jobs.submit.requests import check_start
from airflow_provider_ha.operators._base import SparkHaBaseOperator, airflow_errors, as_flag, table
from airflow_provider_ha.operators._parameters import check_given, flag, one_of


if TYPE_CHECKING:
    from airflow_provider_ha.checkpoints.plan_model import Candidate
    from airflow_provider_ha.checkpoints.verify.verification import Depth


__all__ = ["SparkHaSelectCheckpointOperator"]


class SparkHaSelectCheckpointOperator(SparkHaBaseOperator):
    """Verify a job's checkpoints, newest first, and return the first restorable one. Changes nothing.

    Returns ``chosen`` (``source``, ``cut``, ``run``, ``epoch``, ``created_at``), ``candidates`` (each with
    ``accepted``, and for a rejected candidate ``file`` and ``reason``) and ``latest_number``, the highest checkpoint
    number so far. The log shows the candidates as a table. Fails when every candidate is rejected.

    :param job_id: Stable id of the job.
    :param start_from: ``"latest"``, ``"checkpoint-<n>"``, ``"savepoint-<id>"`` (also the beginning of an id, or a
        label) or ``"before <time>"``.
    :param fallback: Allow an older checkpoint when a newer one is known to be bad.
    :param depth: ``"full"`` reads every state file; ``"quick"`` reads names, sizes and small files.
    :param spark_ha_conn_id: Airflow connection of type ``spark_ha``.
    """

    template_fields: Sequence[str] = (*SparkHaBaseOperator.template_fields, "start_from", "fallback", "depth")

    def __init__(
        self, *, start_from: str = "latest", fallback: bool | str = True, depth: str = "full", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.start_from = start_from
        self.fallback = fallback
        self.depth = depth
        check_given(self, start_from=check_start, depth=one_of("depth", ("quick", "full")), fallback=flag("fallback"))

    def execute(self, context: Any) -> dict[str, Any]:  # noqa: ARG002  # Airflow's signature
        """Verify the candidates, log the table, and return the selection."""
        depth = checked_depth(self.depth)
        with self.client() as client:
            job = client.job(self.job_id)
            latest_number = job.snapshot().checkpoint_counter
            selection = job.select(start_from=self.start_from, fallback=as_flag(self.fallback), depth=depth)
        candidates = candidates_table(selection.candidates)
        self.log.info("Candidates of job %s, newest first:\n%s", self.job_id, candidates)
        with airflow_errors():
            chosen = selection.require()
        self.log.info("Chosen: %s", chosen.name)
        return selection_view(selection, job_id=self.job_id, latest_number=latest_number).to_json()


def candidates_table(candidates: Sequence[Candidate]) -> str:
    """Return the candidates as a table for people, with the file that caused each rejection."""
    rows = [
        (
            candidate.source,
            "accepted" if candidate.accepted else "rejected",
            candidate.file or "",
            candidate.reason,
        )
        for candidate in candidates
    ]
    return table(("candidate", "verdict", "file", "reason"), rows)


def checked_depth(depth: str) -> Depth:
    """Return *depth* if it is valid.

    :raises airflow.sdk.exceptions.AirflowFailException: *depth* is invalid.
    """
    if depth == "quick":
        return "quick"
    if depth == "full":
        return "full"
    raise AirflowFailException(f"depth={depth!r} is unknown. Use 'quick' or 'full'.")
