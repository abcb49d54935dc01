"""Restores of a real stateful query with a file sink that is ahead: what Spark makes of our directories."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.areas.drain import drain_key, write_drain_entry
from airflow_provider_ha.checkpoints.areas.linked_work_area import LinkedWorkArea, fork
from airflow_provider_ha.checkpoints.areas.pins import pin, sink_directory
from airflow_provider_ha.checkpoints.model import QueryCut, QuerySink, SinkKind
from airflow_provider_ha.checkpoints.plan_model import RestorePlan, Verdict
from airflow_provider_ha.checkpoints.restore.facts import RestoreCase, gather_facts
from airflow_provider_ha.checkpoints.restore.plan import RestoreChoices, plan_restore
from airflow_provider_ha.checkpoints.restore.plan_execution import prepare_recovery, prepare_restore
from airflow_provider_ha.checkpoints.restore.query_records import LastDirectory
from airflow_provider_ha.checkpoints.restore.select import RestoreSource
from airflow_provider_ha.checkpoints.sinks.file_sink_log import LOG, FileSinkLog, sink_log
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.jobs.model import DrainedQuery
from tests.support.spark.recorded_job import (
    FILES,
    MORE,
    QUERY,
    assert_exact,
    continue_query,
    copy_live,
    copy_output,
    truth,
    written,
)


CUT, LAST = 8, 13


def plan_for(
    live: Path, pinned: Path, out: Path, *, batch: int = CUT, drained: DrainedQuery | None = None, same: bool = True
) -> RestorePlan:
    """Pin *batch* of *live* and plan its restore."""
    pin(live, pinned, {QUERY: batch}, sinks={QUERY: sink_log(str(out))})
    sink = QuerySink(kind=SinkKind.FILE, format="json", path=str(out))
    now = datetime.now(timezone.utc)
    chosen = RestoreSource("checkpoint", "1", "pin", {QUERY: QueryCut(batch=batch, sink=sink)}, 1, 1, "g", "4.2.0", now)
    told = {QUERY: drained} if drained else {}
    last = LastDirectory(LinkedWorkArea(live.parent.parent), f"{live.parent.name}/{live.name}", epoch=1, run=1)
    facts = gather_facts(RestoreCase(chosen=chosen, at=now, root=LocalTree(pinned), last=last, drained=told))
    return plan_restore(facts, RestoreChoices(job_id="j", source_job="j", same_output=same))


def job(tmp_path: Path, name: str) -> tuple[Path, Path]:
    """Return a copy of the working directory and of the output."""
    return copy_live(tmp_path / name / "live"), copy_output(tmp_path / name / "out")


@pytest.mark.hours
@pytest.mark.long
@pytest.mark.spark
@pytest.mark.timeout(500)
def test_a_rewound_query_and_one_killed_in_the_crash_window_end_at_the_truth(tmp_path: Path) -> None:
    # Rewound by five batches that the sink has.
    live, rewound = job(tmp_path, "rewound")
    plan = plan_for(live, tmp_path / "rewound" / "pin", rewound)
    assert (plan.verdict, [entry.batch for entry in plan.queries[QUERY].replay]) == (Verdict.SAFE, list(range(9, 14)))
    prepare_restore(LinkedWorkArea(tmp_path / "rewound"), "pin", plan, "e2")
    recorded = [entry.model_dump() for entry in plan.queries[QUERY].replay]

    # The crash window: the sink has the batch that is planned and not committed.
    live, window = job(tmp_path, "window")
    (live / QUERY / "commits" / str(LAST)).unlink()
    fork(live / QUERY, tmp_path / "window" / "e2" / QUERY, keep_planned=True)

    continue_query(
        [
            {"checkpoint": tmp_path / "rewound" / "e2" / QUERY, "out": rewound, "recorded": recorded},
            {"checkpoint": tmp_path / "window" / "e2" / QUERY, "out": window},
        ],
        tmp_path,
    )

    assert_exact(rewound, FILES + MORE)
    assert_exact(window, FILES + MORE)


def die_in(batch: int, directory: Path, log: Path) -> None:
    """Leave checkpoint and sink log as a kill in the middle of *batch* leaves them, before it reached the sink."""
    for place, first in (
        (directory / "offsets", batch + 1),
        (directory / "commits", batch),
        (directory / "sources" / "0", batch + 1),
        (log, batch),
    ):
        for path in place.iterdir():
            number = path.name.strip(".").split(".")[0]
            if number.isdigit() and int(number) >= first:
                path.unlink()


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(500)
def test_a_loss_in_the_middle_of_a_compaction_goes_on_and_so_does_a_checkpoint_taken_then(tmp_path: Path) -> None:
    """Batch 11 compacts the source's log, which every fourth batch does."""
    spec, outputs = [], []
    for name in ("recovered", "restored"):
        live, out = job(tmp_path, name)
        die_in(11, live / QUERY, out / LOG)
        prepare_recovery(LinkedWorkArea(tmp_path / name), live.name, "e2")
        pin(tmp_path / name / "e2", tmp_path / name / "pin", {QUERY: 10}, sinks={QUERY: sink_log(str(out))})
        fork(tmp_path / name / "pin" / QUERY, tmp_path / name / "e3" / QUERY, keep_planned=False)
        directory = tmp_path / name / ("e2" if name == "recovered" else "e3") / QUERY
        spec.append({"checkpoint": directory, "out": out})
        outputs.append(out)

    continue_query(spec, tmp_path)

    for out in outputs:
        assert_exact(out, FILES + MORE)


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(500)
def test_copied_logs_keep_their_interval(tmp_path: Path) -> None:
    """Both logs compact every fourth batch. From ``7.compact`` alone, Spark derives two, and misses ``9.compact``."""
    live, old = job(tmp_path, "copied")
    pinned, forked, out = (tmp_path / name for name in ("pin", "e2", "new"))
    pin(live, pinned, {QUERY: 10}, sinks={QUERY: sink_log(str(old))})
    fork(pinned / QUERY, forked / QUERY, keep_planned=False)
    FileSinkLog(out).seed(10, "continue", LocalTree(sink_directory(pinned, QUERY) / LOG))

    continue_query([{"checkpoint": forked / QUERY, "out": out, "interval": 2}], tmp_path)

    assert_exact(out, FILES + MORE)


@pytest.mark.hours
@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(500)
def test_a_log_with_one_compact_entry_is_compacted_where_spark_looks(tmp_path: Path) -> None:
    """As Spark leaves it when it retains few batches: from ``7.compact`` alone it derives two, not four."""
    live, out = job(tmp_path, "alone")
    die_in(10, live / QUERY, out / LOG)
    (live / QUERY / "sources/0/3.compact").unlink()

    continue_query([{"checkpoint": live / QUERY, "out": out, "interval": 2}], tmp_path)

    assert_exact(out, FILES + MORE)


@pytest.mark.hours
@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(500)
def test_another_job_goes_on_with_the_old_output_or_with_an_empty_one(tmp_path: Path) -> None:
    spec, outputs = [], {}
    for mode in ("continue", "fresh"):
        live, old = job(tmp_path, mode)
        plan = plan_for(live, tmp_path / mode / "pin", old, same=False)
        assert plan.verdict is Verdict.SAFE
        prepare_restore(LinkedWorkArea(tmp_path / mode), "pin", plan, "e2")
        outputs[mode] = tmp_path / mode / "new"
        kept = sink_directory(tmp_path / mode / "pin", QUERY) / LOG
        FileSinkLog(outputs[mode]).seed(CUT, mode, LocalTree(kept))
        spec.append({"checkpoint": tmp_path / mode / "e2" / QUERY, "out": outputs[mode]})

    continue_query(spec, tmp_path)

    assert_exact(outputs["continue"], FILES + MORE)
    # The batch of the cut closed the windows of the files before it.
    new = {(hour, key): count for hour, key, count in written(outputs["fresh"])}
    assert new == dict(truth(FILES + MORE) - truth(CUT))


@pytest.mark.hours
@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(500)
@pytest.mark.parametrize("finished", [True, False])
def test_the_half_full_windows_of_a_drain_do_not_stay_after_a_restore(tmp_path: Path, finished: bool) -> None:
    """Whether the run's result names the drain, or its driver died before there was one and left the fork."""
    live, out = job(tmp_path, "drained")
    drain = (Path(drain_key(str(live))) if not finished else tmp_path / "drained" / "drain") / QUERY
    fork(live / QUERY, drain, keep_planned=False)
    write_drain_entry(LocalTree(drain))
    continue_query([{"checkpoint": drain, "out": out, "once": True}], tmp_path)
    assert len(written(out)) == len(truth(FILES)) + 3

    told = DrainedQuery(batch=LAST + 1, sink_path=str(out), sink_entry_sha256=FileSinkLog(out).digest(LAST + 1))
    plan = plan_for(live, tmp_path / "drained" / "pin", out, batch=LAST, drained=told if finished else None)
    assert plan.verdict is Verdict.SAFE
    prepare_restore(LinkedWorkArea(tmp_path / "drained"), "pin", plan, "e2")
    continue_query([{"checkpoint": tmp_path / "drained" / "e2" / QUERY, "out": out}], tmp_path)

    assert_exact(out, FILES + MORE)
