"""The checkpoint or savepoint that a restore would start from, and those that were rejected."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from airflow_provider_ha.checkpoints.model import Candidate
from airflow_provider_ha.views.view import View


if TYPE_CHECKING:
    from airflow_provider_ha.checkpoints.restore.select import Chosen, Selection


class ChosenView(View):
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

    chosen: ChosenView | None
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


def _chosen(chosen: Chosen) -> ChosenView:
    return ChosenView(
        source=chosen.name,
        cut={query: cut.batch for query, cut in chosen.queries.items()},
        run=chosen.run,
        epoch=chosen.epoch,
        created_at=chosen.created_at,
    )
