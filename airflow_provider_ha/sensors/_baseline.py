"""Where a job stood when a sensor was first executed.

"Newer" means a higher number than then. A retry executes the sensor again: with a new baseline it would wait for
one more checkpoint than it was asked to. So the first one is kept in Airflow's task state store, which outlives tries.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any


if TYPE_CHECKING:
    from airflow_provider_ha.jobs.status import JobStatus


_KEY = "spark_ha_first_checkpoint"


@dataclass(frozen=True, slots=True)
class Baseline:
    """What was known.

    :param checkpoint: Highest checkpoint number given out; 0 for none.
    :param ended_run: Newest run, when it already had a result; 0 for none.
    """

    checkpoint: int = 0
    ended_run: int = 0


def baseline_of(snapshot: JobStatus) -> Baseline:
    """Return the baseline that a snapshot shows."""
    view = snapshot.run
    ended = view.run.number if view is not None and view.result is not None else 0
    return Baseline(checkpoint=snapshot.checkpoint_counter, ended_run=ended)


def first(context: Any, now: Baseline) -> Baseline:
    """Return *now* with the checkpoint number of the first try, remembering it when this is the first.

    Only the number is kept. Whether the newest run is over is judged again: a user who clears a failed sensor after
    a new submission wants it to watch the new run.
    """
    store = context.get("task_state_store")
    if store is None:
        return now
    kept = store.get(_KEY)
    if isinstance(kept, int):
        return replace(now, checkpoint=kept)
    store.set(_KEY, now.checkpoint)
    return now
