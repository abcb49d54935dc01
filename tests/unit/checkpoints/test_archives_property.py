"""Archives and removals change no plan: every cut that can be restored gets the plan that it would have had without."""

from __future__ import annotations

from random import Random

import pytest

from airflow_provider_ha.checkpoints.store import payload_history
from tests.support.checkpoints.history_model import RecordedJob, steps_of


STEPS = 120
WEIGHTS = {
    "batch": 12, "checkpoint": 8, "collect": 2, "die": 3, "lose": 1, "restore": 2, "savepoint": 1, "dispose": 1
}  # fmt: skip


def life(seed: int) -> list[tuple[str, int, int]]:
    """Return random steps; the same ones for a seed."""
    random = Random(seed)
    names = random.choices(list(WEIGHTS), list(WEIGHTS.values()), k=STEPS)
    return [(name, random.randrange(24), random.randrange(6)) for name in names]


@pytest.mark.parametrize("seeds", [range(8), pytest.param(range(8, 420), marks=pytest.mark.long)], ids=["few", "many"])
def test_plans_of_archived_history_are_those_of_all_that_was_ever_recorded(
    seeds: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(payload_history, "MOST_PAYLOADS", 3)
    archived = replayed = 0
    for seed in seeds:
        job = RecordedJob()
        for step in steps_of(job, life(seed)):
            if step in ("collect", "die"):
                for chosen in job.cuts():
                    plan = job.plan(chosen, job.history.checkpoints())
                    assert plan == job.plan(chosen, job.written), f"seed {seed}, {chosen.name}"
                    replayed += sum(len(part.replay) for part in plan.queries.values())
        archived += len(job.objects(job.keys.archive_heads))
    assert archived > len(seeds)
    assert replayed > len(seeds)
