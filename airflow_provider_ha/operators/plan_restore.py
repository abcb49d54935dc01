"""Show the plan of a restore without a restore."""

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
    """Make the plan of a restore and show it. Changes nothing, and accepts every verdict: it is for reading.

    Takes the parameters of :class:`SparkHaRestoreOperator`; *wait_for*, *when_killed*, *if_lost* and
    *accept_verdicts* have no effect.

    Returns ``verdict``, ``reasons``, ``findings`` (each with ``verdict``, ``reason`` and ``ways_out``), ``unknown``,
    ``source``, ``claim_mode``, ``owner`` (owner of the source afterwards, ``user`` or ``job``), ``age_seconds``,
    ``queries`` (``batch``, ``replayed`` batches, what each source has to give again, what the sink has) and
    ``latest_number``, the highest checkpoint number of the target job so far.
    """

    def execute(self, context: Any) -> dict[str, Any]:
        """Plan, log the table, return the plan."""
        with self.client() as client:
            job = client.job(self.job_id)
            plan = job.plan_restore(self.restore_request(request_id(context)))
            shown = plan_figures(plan, latest_number=_latest_number(job))
        self.log.info("%s", plan_text(shown))
        return shown.to_json()


def plan_text(plan: PlanFiguresView) -> str:
    """Return a plan for people: from where, how old, what is executed again, and what that does to the output."""
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
