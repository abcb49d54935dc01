"""Restore plan in full and as figures for Airflow's database, and the selection of the start of a restore.

Of the batches to be replayed only the ids are shown, not their recorded boundaries.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from airflow_provider_ha.api.documents.view import ErrorView, View, error_view
from airflow_provider_ha.checkpoints.model import (
    Candidate,
    GivenBatches,
    PlanFinding,
    QueryPlan,
    QuerySink,
    RestorePlan,
    SourceInput,
    Verdict,
)
from airflow_provider_ha.checkpoints.ownership import AdoptedCheckpoint, ClaimMode, Owner
from airflow_provider_ha.checkpoints.sinks.sink_registry import name_by_sink
from airflow_provider_ha.errors import HaError


if TYPE_CHECKING:
    from airflow_provider_ha.checkpoints.restore.select import RestoreSource, Selection


class RestoreStartView(View):
    """The start of a restore.

    :param source: ``checkpoint-<n>`` or ``savepoint-<id>``.
    :param cut: Query -> batch.
    :param run: Run that took it.
    :param epoch: Epoch that took it.
    :param created_at: When it was taken.
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
    :param job_id: The job.
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
    return SelectionView(
        chosen=_chosen(chosen) if chosen is not None else None,
        candidates=selection.candidates,
        job_id=job_id,
        latest_number=latest_number,
    )


def _chosen(chosen: RestoreSource) -> RestoreStartView:
    return RestoreStartView(
        source=chosen.name,
        cut={query: cut.batch for query, cut in chosen.queries.items()},
        run=chosen.run,
        epoch=chosen.epoch,
        created_at=chosen.created_at,
    )


class QueryPlanView(View):
    """The effect of a restore on one query.

    :param batch: The cut: the last batch that counts as committed; -1 for none.
    :param replay: Batches that are executed again with their recorded boundaries.
    :param sink: The batches of the sink, as far as they were known when the plan was made.
    :param set_aside: Batches that are taken out of the file sink's log: batch -> sha256 of exactly that entry.
    :param input_files: Files of file sources that are read again.
    :param inputs: The input that each source has to give again.
    :param sink_gone: Whether the sink is gone although it had batches.
    :param given: The batches that a fenced ``foreachBatch`` function was given; ``null`` without notes.
    :param query_id: The fresh id that the query gets; ``null`` to keep its own.
    :param name_by_sink: Name of a query that writes there and that the script does not name; ``null`` where the output
        does not say it.
    """

    batch: int
    replay: tuple[int, ...]
    sink: QuerySink
    set_aside: dict[int, str]
    input_files: int
    inputs: tuple[SourceInput, ...]
    sink_gone: bool
    given: GivenBatches | None
    query_id: str | None
    name_by_sink: str | None


class PlanView(View):
    """The effects of a restore.

    :param job_id: The job that gets the new run.
    :param source_job: The job that the cut belongs to.
    :param source: ``checkpoint``, ``savepoint`` or ``path``.
    :param source_id: Number of the checkpoint, id of the savepoint, or the path.
    :param directory: Key of the directory with the chosen files.
    :param verdict: The worst verdict of *findings*.
    :param reasons: Their reasons, without the ways out.
    :param queries: Query -> the effect of the restore on it.
    :param candidates: Everything that was looked at, newest first.
    :param age_seconds: How old the cut was at *created_at*.
    :param created_at: When the plan was made.
    :param same_output: Whether the job continues the outputs of the source.
    :param findings: The reasons why it is not ``SAFE``.
    :param unknown: Query -> facts that are unknown; not empty: exit code 2, and no restore.
    :param claim_mode: The requested claim mode.
    :param owner: Owner of the source afterwards: ``user`` or ``job``.
    :param adopted: Query -> location of its checkpoint, when Spark wrote it outside managed storage.
    :param refusal: Why the restore would be refused at this moment; ``null`` when it would be carried out, and
        always for a path.
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

    :param batch: The cut: the last batch that counts as committed; -1 for none.
    :param replayed: Batches that are executed again with their recorded boundaries.
    :param sink_batch: The highest batch that the sink has; -1 for none.
    :param sink_gone: Whether the sink is gone although it had batches.
    :param given: The batches that a fenced ``foreachBatch`` function was given; ``null`` without notes.
    :param inputs: The input that each source has to give again.
    :param input_files: Files of file sources that are read again.
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

    :param verdict: The worst verdict of *findings*.
    :param reasons: Their reasons, without the ways out.
    :param findings: The reasons why it is not ``SAFE``.
    :param unknown: Query -> facts that are unknown.
    :param source: ``checkpoint-<n>``, ``savepoint-<id>``, or the path.
    :param claim_mode: The requested claim mode.
    :param owner: Owner of the source afterwards: ``user`` or ``job``.
    :param age_seconds: How old the cut was when the plan was made.
    :param queries: Query -> the effect of the restore on it.
    :param job_id: The job that gets the new run.
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
    shown = {name: getattr(plan, name) for name in PlanView.model_fields if name not in {"queries", "refusal"}}
    return PlanView(
        **shown,
        queries={name: _query(query) for name, query in plan.queries.items()},
        refusal=error_view(refusal) if refusal is not None else None,
    )


def plan_figures(plan: RestorePlan, *, latest_number: int) -> PlanFiguresView:
    """Return the figures of a plan.

    :param latest_number: The highest checkpoint number of the job so far.
    """
    return PlanFiguresView(
        verdict=plan.verdict,
        reasons=plan.reasons,
        findings=plan.findings,
        unknown=plan.unknown,
        source=plan.name,
        claim_mode=plan.claim_mode,
        owner=plan.owner,
        age_seconds=round(plan.age_seconds, 1),
        queries={name: _figures(query) for name, query in plan.queries.items()},
        job_id=plan.job_id,
        latest_number=latest_number,
    )


def _query(query: QueryPlan) -> QueryPlanView:
    shown = {
        name: getattr(query, name) for name in QueryPlanView.model_fields if name not in {"replay", "name_by_sink"}
    }
    return QueryPlanView(**shown, replay=_ids(query), name_by_sink=name_by_sink(query.sink))


def _figures(query: QueryPlan) -> QueryFiguresView:
    return QueryFiguresView(
        batch=query.batch,
        replayed=_ids(query),
        sink_batch=query.sink.max_batch,
        sink_gone=query.sink_gone,
        given=query.given,
        inputs=query.inputs,
        input_files=query.input_files,
    )


def _ids(query: QueryPlan) -> tuple[int, ...]:
    return tuple(entry.batch for entry in query.replay)
