"""Show what a restore would do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_ha.errors import UnknownJobError
from airflow_provider_ha.operators._identity import request_id
from airflow_provider_ha.operators._tables import table
from airflow_provider_ha.operators.restore import SparkHaRestoreOperator


if TYPE_CHECKING:
    from airflow_provider_ha.checkpoints.model import RestorePlan
    from airflow_provider_ha.control.client import JobClient


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
            latest_number = _latest_number(job)
        self.log.info("%s", plan_text(plan))
        return plan_json(plan) | {"job_id": self.job_id, "latest_number": latest_number}


def plan_json(plan: RestorePlan) -> dict[str, Any]:
    """Return the figures of a plan as plain JSON."""
    return {
        "verdict": plan.verdict.value,
        "reasons": list(plan.reasons),
        "findings": [finding.model_dump(mode="json") for finding in plan.findings],
        "unknown": {query: list(reasons) for query, reasons in plan.unknown.items()},
        "source": plan.name,
        "claim_mode": plan.claim_mode.value,
        "owner": plan.owner.value,
        "age_seconds": round(plan.age_seconds, 1),
        "queries": {
            name: {
                "batch": query.batch,
                "replayed": [entry.batch for entry in query.replay],
                "sink_batch": query.sink.max_batch,
                "sink_gone": query.sink_gone,
                "given": query.given.model_dump() if query.given else None,
                "inputs": [source.model_dump() for source in query.inputs],
                "input_files": query.input_files,
            }
            for name, query in plan.queries.items()
        },
    }


def plan_text(plan: RestorePlan) -> str:
    """Return a plan for people: from where, how old, what is executed again, and what that does to the output."""
    facts = plan_json(plan)
    rows = [
        (name, query["batch"], len(query["replayed"]), query["sink_batch"], query["input_files"])
        for name, query in facts["queries"].items()
    ]
    queries = table(("query", "restored to batch", "batches replayed", "sink has batch", "files read again"), rows)
    ways = {finding.reason: finding.ways_out for finding in plan.findings}
    reasons = "".join(
        f"\n- {reason}" + "".join(f"\n  way out: {way}" for way in ways.get(reason, ())) for reason in plan.reasons
    )
    origin = f"From {facts['source']}, {facts['age_seconds']} s old. Verdict: {facts['verdict']}{reasons}"
    return f"{origin}\nAfterwards it is the {facts['owner']}'s ({facts['claim_mode']}).\n{queries}"


def _latest_number(job: JobClient) -> int:
    try:
        return job.snapshot().checkpoint_counter
    except UnknownJobError:
        return 0
