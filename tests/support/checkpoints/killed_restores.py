"""Kills a restore with SIGKILL before each step on the file system, then repeats it as the next epoch does.

``python tests/support/checkpoints/killed_restores.py user|job|adopted PLACE`` prints how many steps there were. After
each kill what is restored from has the bytes that it had, and the next attempt, in its own directory, makes what
Spark can start from.
"""

from __future__ import annotations

import sys
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

from airflow_provider_ha.checkpoints.areas.linked_work_area import LinkedWorkArea
from airflow_provider_ha.checkpoints.model import QuerySink, SinkKind
from airflow_provider_ha.checkpoints.ownership import AdoptedCheckpoint, Owner
from airflow_provider_ha.checkpoints.plan_model import QueryPlan, RestorePlan, Verdict
from airflow_provider_ha.checkpoints.restore.plan_execution import prepare_restore
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import progress
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.spark.metadata_log import read_query_id
from airflow_provider_ha.checkpoints.verify.verification import verify
from tests.support.checkpoints.killed_attempts import is_killed
from tests.support.checkpoints.portable_helpers import QUERY, savepoint


def main(what: str, place: Path) -> int:
    """Restore once for each step of a restore; return how many there are."""
    directory, made = savepoint(place)
    plan = _plan(what, directory, made.queries[QUERY].batch)
    before = _bytes(directory)
    step = 0
    restore = partial(prepare_restore, LinkedWorkArea(place), directory.relative_to(place).as_posix(), plan)
    while is_killed(partial(restore, f"live/e{step}-killed"), step):
        restore(f"live/e{step}-next")
        assert verify(LocalTree(place / "live" / f"e{step}-next" / QUERY)).startable is True
        assert _bytes(directory) == before
        step += 1
    assert _bytes(directory) == before
    return step


def _plan(what: str, directory: Path, batch: int) -> RestorePlan:
    adopted = {}
    if what == "adopted":
        source = directory / QUERY
        at = progress(LocalTree(source))
        adopted[QUERY] = AdoptedCheckpoint(
            path=str(source), query_id=read_query_id(LocalTree(source)), planned=at.planned, committed=at.committed
        )
    return RestorePlan(
        job_id="j",
        source_job="j",
        source="path" if adopted else "savepoint",
        source_id="s",
        directory="",
        verdict=Verdict.SAFE,
        queries={QUERY: QueryPlan(batch=batch, sink=QuerySink(kind=SinkKind.OTHER))},
        age_seconds=0,
        created_at=datetime(2026, 1, 1, tzinfo=timezone.utc),
        owner=Owner.USER if what == "user" else Owner.JOB,
        adopted=adopted,
    )


def _bytes(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


if __name__ == "__main__":
    sys.stdout.write(str(main(sys.argv[1], Path(sys.argv[2]))))
