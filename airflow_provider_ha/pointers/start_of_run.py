"""What the live run of a job begins from, as the one who removes savepoints has to know it."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_ha.coordination.coordinator import Op


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOfRun:
    """What was seen of the runs of a job.

    :param run: Number of its live run; ``None`` without one.
    :param savepoint_id: The job's savepoint that this run begins from; ``None`` when it begins from something else.
    :param unchanged: For the transaction that removes a savepoint: it fails when a run was made since.
    """

    run: int | None = None
    savepoint_id: str | None = None
    unchanged: tuple[Op, ...] = ()
