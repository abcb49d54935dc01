"""The log of a file sink is judged by one rule: by ``verify``, and by every plan."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.plan_model import RestorePlan, Verdict
from airflow_provider_ha.checkpoints.restore.directory_plan import plan_directory, sink_at
from airflow_provider_ha.checkpoints.sinks.file_sink_log import LOG
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.verify.verification import verify
from tests.support.checkpoints.portable_helpers import QUERY, checkpoint


NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
BATCHES = range(13)
Damage = Callable[[Path], object]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A checkpoint of batches 0 to 12, and the output of its file sink, which was compacted at batch 9."""
    checkpoint(tmp_path / QUERY, BATCHES)
    (tmp_path / "out" / LOG).mkdir(parents=True)
    for batch in BATCHES:
        files = [write_output(tmp_path / "out", each) for each in (range(batch + 1) if batch == 9 else (batch,))]
        name = f"{batch}.compact" if batch == 9 else str(batch)
        (tmp_path / "out" / LOG / name).write_text("\n".join(["v1", *files]))
    return tmp_path


def write_output(output: Path, batch: int) -> str:
    """Write the output file of a batch, and return the line of the log that names it."""
    file = output / f"part-{batch}.json"
    file.write_text("{}")
    return json.dumps({"path": file.as_uri(), "size": 2, "isDir": False, "action": "add"})


def plan(place: Path, batch: int | None = None) -> RestorePlan:
    # Where the rows come from is not what these tests are about.
    return plan_directory(
        QUERY, LocalTree(place / QUERY), sink=sink_at(str(place / "out")), now=NOW, ask_kafka=lambda *_: {}, batch=batch
    )


def reasons(made: RestorePlan, verdict: Verdict) -> list[str]:
    return [each.reason for each in made.findings if each.verdict is verdict]


def test_a_whole_log_is_no_obstacle_to_either(place: Path) -> None:
    assert not reasons(plan(place), Verdict.IMPOSSIBLE)
    assert verify(LocalTree(place / QUERY), sink=LocalTree(place / "out")).startable


@pytest.mark.parametrize(
    ("damage", "batch"),
    [
        (lambda log: (log / "9.compact").unlink(), 9),
        (lambda log: (log / "11").unlink(), 11),
        (lambda log: (log / "10").write_text(""), 10),
        (lambda log: (log / "12").write_text("v1\n{"), 12),
        (lambda log: (log / "9.compact").write_text("v1\n{}"), 9),
    ],
    ids=["compact entry gone", "entry gone", "entry empty", "newest entry cut", "line without a path"],
)
def test_what_verify_blocks_no_plan_calls_safe(place: Path, damage: Damage, batch: int) -> None:
    damage(place / "out" / LOG)

    report = verify(LocalTree(place / QUERY), sink=LocalTree(place / "out"))
    made = plan(place)

    assert report.startable is False
    assert made.verdict is Verdict.IMPOSSIBLE
    assert any(f"batch {batch}" in reason for reason in reasons(made, Verdict.IMPOSSIBLE))
    assert any(LOG in way for each in made.findings for way in each.ways_out)


def test_entries_before_the_newest_compact_entry_are_not_read(place: Path) -> None:
    (place / "out" / LOG / "4").unlink()

    assert not reasons(plan(place), Verdict.IMPOSSIBLE)
    assert verify(LocalTree(place / QUERY), sink=LocalTree(place / "out")).startable


def test_a_hole_counts_for_every_cut_before_it(place: Path) -> None:
    (place / "out" / LOG / "11").unlink()

    assert reasons(plan(place, batch=10), Verdict.IMPOSSIBLE)
