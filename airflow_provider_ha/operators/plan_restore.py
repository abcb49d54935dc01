"""Plan a restore without carrying it out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_ha.api.documents.restore_plan import PlanFiguresView, plan_figures
from airflow_provider_ha.errors import UnknownJobError
from airflow_provider_ha.operators._base import request_id, table
from airflow_provider_ha.operators.restore import SparkHaRestoreOperator


if TYPE_CHECKING:
    from airflow_provider_ha.api.job_client import JobClient


__all__ = ["SparkHaPlanRestoreOperator"]


class SparkHaPlanRestoreOperator(SparkHaRestoreOperator):
    """Plan a restore and show the plan. Changes nothing, and accepts every verdict, because the plan is for reading.

    Takes the parameters of :class:`SparkHaRestoreOperator`; *wait_for*, *when_killed*, *if_lost* and *accept_verdicts*
    have no effect.

    Returns ``verdict``, ``reasons``, ``findings`` (each with ``verdict``, ``reason`` and ``ways_out``), ``unknown``,
    ``source``, ``claim_mode``, ``owner`` (owner of the source afterwards, ``user`` or ``job``), ``age_seconds``,
    ``queries`` (``batch``, number of ``replayed`` batches, data that each source reads again, data in the sink) and
    ``latest_number``, the highest checkpoint number of the target job so far.
    """

    def execute(self, context: Any) -> dict[str, Any]:
        """Plan the restore, log the table, and return the plan."""
        with self.client() as client:
            job = client.job(self.job_id)
            plan = job.plan_restore(self.restore_request(request_id(context)))
            shown = plan_figures(plan, latest_number=_latest_number(job))
        self.log.info("%s", plan_text(shown))
        return shown.to_json()


def plan_text(plan: PlanFiguresView) -> str:
    """Return a plan as text for people: source, age, batches to execute again, and their effect on the output."""
    rows = [
        (name, query.batch, len(query.replayed), query.sink_batch, query.input_files)
        for name, query in plan.queries.items()
    ]
    queries = table(("query", "restored to batch", "batches replayed", "sink has batch", "files read again"), rows)
    ways = {finding.reason: finding.ways_out for finding in plan.findings}
    reasons = "".join(
        f"\n- {reason}" + "".join(f"\n  way out: {way}" for way in ways.get(reason, ())) for reason in plan.reasons
    )
    origin = f"From {plan.source}, {plan.age_seconds} s old. Verdict: {plan.verdict.value}{reasons}"
    return f"{origin}\nAfterwards it is the {plan.owner.value}'s ({plan.claim_mode.value}).\n{queries}"


def _latest_number(job: JobClient) -> int:
    try:
        return job.snapshot().checkpoint_counter
    except UnknownJobError:
        return 0
