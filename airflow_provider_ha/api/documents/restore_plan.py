"""Restore plan in full and as figures for Airflow's database, and the selection of the start of a restore.

Of the batches to be replayed only the ids are shown, not their recorded boundaries.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from airflow_provider_ha.api.documents.view import ErrorView, View, error_view
from airflow_provider_ha.checkpoints.model import GivenBatches, QuerySink
from airflow_provider_ha.checkpoints.ownership import AdoptedCheckpoint, ClaimMode, Owner
from airflow_provider_ha.checkpoints.plan_model import (
    Candidate,
    PlanFinding,
    QueryPlan,
    RestorePlan,
    SourceInput,
    Verdict,
)
from airflow_provider_ha.checkpoints.sinks.sink_registry import name_by_sink
from airflow_provider_ha.errors import HaError


if TYPE_CHECKING:
    from airflow_provider_ha.checkpoints.restore.select import RestoreSource, Selection


class RestoreStartView(View):
    """The start of a restore.

    :param source: ``checkpoint-<n>`` or ``savepoint-<id>``.
    :param run: Run that took it.
    :param epoch: Epoch that took it.
    """

    source: str
    cut: dict[str, int]
    run: int
    epoch: int
    created_at: datetime


class SelectionView(View):
    """The candidates of a restore, and the chosen one.

    :param chosen: The start of a restore; ``null`` without a restorable candidate.
    :param candidates: Everything that was looked at, newest first.
    :param latest_number: The highest checkpoint number of the job so far.
    """

    chosen: RestoreStartView | None
    candidates: tuple[Candidate, ...]
    job_id: str
    latest_number: int


def selection_view(selection: Selection, *, job_id: str, latest_number: int) -> SelectionView:
    """Return a selection.

    :param latest_number: The highest checkpoint number of the job so far.
    """
    chosen = selection.chosen
    shown = _chosen(chosen) if chosen is not None else None
    return SelectionView.of(selection, chosen=shown, job_id=job_id, latest_number=latest_number)


def _chosen(chosen: RestoreSource) -> RestoreStartView:
    cut = {query: part.batch for query, part in chosen.queries.items()}
    return RestoreStartView.of(chosen, source=chosen.name, cut=cut)


class QueryPlanView(View):
    """The effect of a restore on one query.

    :param name_by_sink: Name of a query that writes there and that the script does not name; ``null`` where the output
        does not say it.
    :param sink_progress: Newest batch of the sink, for people.
    """

    batch: int
    replay: tuple[int, ...]
    sink: QuerySink
    sink_progress: str
    set_aside: dict[int, str]
    input_files: int
    inputs: tuple[SourceInput, ...]
    sink_gone: bool
    given: GivenBatches | None
    query_id: str | None
    name_by_sink: str | None


class PlanView(View):
    """The effects of a restore.

    :param refusal: Why the restore would be refused at this moment; ``null`` when it would be carried out, and always
        for a path.
    """

    job_id: str
    source_job: str
    source: str
    source_id: str
    directory: str
    verdict: Verdict
    reasons: tuple[str, ...]
    queries: dict[str, QueryPlanView]
    candidates: tuple[Candidate, ...]
    age_seconds: float
    created_at: datetime
    same_output: bool
    findings: tuple[PlanFinding, ...]
    unknown: dict[str, tuple[str, ...]]
    claim_mode: ClaimMode
    owner: Owner
    adopted: dict[str, AdoptedCheckpoint]
    refusal: ErrorView | None


class QueryFiguresView(View):
    """The effect of a restore on one query, in figures.

    :param replayed: Batches that are executed again with their recorded boundaries.
    :param sink_batch: The highest batch that the sink has; -1 for none.
    """

    batch: int
    replayed: tuple[int, ...]
    sink_batch: int
    sink_gone: bool
    given: GivenBatches | None
    inputs: tuple[SourceInput, ...]
    input_files: int


class PlanFiguresView(View):
    """A plan without its candidates: small enough for XCom.

    :param source: ``checkpoint-<n>``, ``savepoint-<id>``, or the path.
    :param latest_number: The job's highest checkpoint number so far.
    """

    verdict: Verdict
    reasons: tuple[str, ...]
    findings: tuple[PlanFinding, ...]
    unknown: dict[str, tuple[str, ...]]
    source: str
    claim_mode: ClaimMode
    owner: Owner
    age_seconds: float
    queries: dict[str, QueryFiguresView]
    job_id: str
    latest_number: int


def plan_view(plan: RestorePlan, refusal: HaError | None = None) -> PlanView:
    """Return the whole plan.

    :param refusal: Why the restore would be refused.
    """
    return PlanView.of(
        plan,
        queries={name: _query(query) for name, query in plan.queries.items()},
        refusal=error_view(refusal) if refusal is not None else None,
    )


def plan_figures(plan: RestorePlan, *, latest_number: int) -> PlanFiguresView:
    """Return the figures of a plan.

    :param latest_number: The highest checkpoint number of the job so far.
    """
    return PlanFiguresView.of(
        plan,
        source=plan.name,
        age_seconds=round(plan.age_seconds, 1),
        queries={name: _figures(query) for name, query in plan.queries.items()},
        latest_number=latest_number,
    )


def _query(query: QueryPlan) -> QueryPlanView:
    return QueryPlanView.of(query, replay=_ids(query), name_by_sink=name_by_sink(query.sink))


def _figures(query: QueryPlan) -> QueryFiguresView:
    return QueryFiguresView.of(query, replayed=_ids(query), sink_batch=query.sink.max_batch)


def _ids(query: QueryPlan) -> tuple[int, ...]:
    return tuple(entry.batch for entry in query.replay)
