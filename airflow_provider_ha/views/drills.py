"""The restore drills of a job."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from airflow_provider_ha.jobs.history.drills import Drill, DrilledQuery, DrillVerdict
from airflow_provider_ha.views.unreadable import UnreadableView
from airflow_provider_ha.views.view import View


if TYPE_CHECKING:
    from airflow_provider_ha.pointers.scan import Unreadable


class DrillResultView(View):
    """The result of a drill, and the time that it took.

    :param drill_id: Its id.
    :param job_id: The job.
    :param source: ``savepoint-<id>`` or ``checkpoint-<n>``.
    :param taken_at: When that was taken.
    :param cut: Query -> batch.
    :param size: Bytes of its files.
    :param age_seconds: Its age when the drill began: the loss of a disaster at that moment (RPO).
    :param started_at: When the drill began.
    :param seconds: Step -> seconds: ``choose``, ``verify``, ``fetch``, ``copy``, ``spark``, ``load``, ``start``.
    :param total_seconds: From the choice to the first batch that Spark committed on it (RTO, on one host).
    :param verdict: ``PASSED``, ``FAILED`` or ``UNKNOWN``.
    :param reasons: Why the verdict is not ``PASSED``.
    :param queries: Query -> its result.
    :param spark_version: The Spark release that ran the check.
    """

    drill_id: str
    job_id: str
    source: str
    taken_at: datetime
    cut: dict[str, int]
    size: int
    age_seconds: float
    started_at: datetime
    seconds: dict[str, float]
    total_seconds: float
    verdict: DrillVerdict
    reasons: tuple[str, ...]
    queries: dict[str, DrilledQuery]
    spark_version: str


class DrillView(DrillResultView):
    """A drill, as recorded by the job.

    :param requested_by: The requester, with host and process.
    """

    requested_by: str


class DrillListView(View):
    """The drills of a job.

    :param job_id: The job.
    :param drills: Newest first.
    :param unreadable: Records that are there and cannot be read.
    """

    job_id: str
    drills: tuple[DrillView, ...]
    unreadable: tuple[UnreadableView, ...]


def drill_list(job_id: str, drills: Sequence[Drill], unreadable: Sequence[Unreadable]) -> DrillListView:
    """Return the drills of a job."""
    return DrillListView(
        job_id=job_id,
        drills=tuple(DrillView.of(drill) for drill in drills),
        unreadable=tuple(UnreadableView.of(broken) for broken in unreadable),
    )
