"""Batches of the recorded job, executed one by one in a layered working directory as its driver does."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

from airflow_provider_ha.checkpoints.areas.layered.layered_work_area import LayeredWorkArea
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import progress
from airflow_provider_ha.checkpoints.spark.closure import closure
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.storage.keys import JobKeys
from tests.support.spark.recorded_job import QUERY, recorded_job


JOB = JobKeys("flights")
LAST = 13  # of the recorded job


@cache
def _needed(batch: int) -> tuple[str, ...]:
    return tuple(closure(LocalTree(_recorded()), batch, with_planned=False))


def _recorded() -> Path:
    return recorded_job() / "live" / QUERY


def execute(area: LayeredWorkArea, write: Callable[[str, bytes], None], key: str, last: int) -> None:
    """Execute the batches of a working directory up to *last*, as far as that was not done; the commit comes last.

    :param write: Writes a file.
    """
    if not area.contains(key):
        area.create(key)
    tree = area.tree(key) / QUERY
    for batch in range(progress(tree).committed + 1, last + 1):
        there = tree.fresh()
        for name in sorted(_needed(batch), key=lambda name: name == f"commits/{batch}"):
            if not there.has(name):
                write(f"{key}/{QUERY}/{name}", (_recorded() / name).read_bytes())


def take_over(area: LayeredWorkArea, lost: str, target: str) -> None:
    """Fence a working directory and go on in another one."""
    area.fence(lost)
    area.create(target)
    area.fork(f"{lost}/{QUERY}", f"{target}/{QUERY}", keep_planned=True)
