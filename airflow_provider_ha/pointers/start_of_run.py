"""Start of a job's live run, for the removal of savepoints."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_ha.coordination.coordinator import Op


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOfRun:
    """Start of a job's live run.

    :param run: Number of the live run; ``None`` without one.
    :param savepoint_id: The job's savepoint that this run starts from; ``None`` when it starts from something else.
    :param unchanged: For the transaction that removes a savepoint: it fails when a run was created since.
    """

    run: int | None = None
    savepoint_id: str | None = None
    unchanged: tuple[Op, ...] = ()
