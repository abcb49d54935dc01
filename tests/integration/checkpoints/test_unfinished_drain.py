"""A drain that died with its driver, in a run that was then given up: what a restore makes of what it wrote."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.areas.drain import drain_key, write_drain_entry
from airflow_provider_ha.checkpoints.areas.linked_work_area import LinkedWorkArea, fence_directory, fork
from airflow_provider_ha.checkpoints.areas.pins import pin
from airflow_provider_ha.checkpoints.areas.working_records import read_entry
from airflow_provider_ha.checkpoints.model import BatchEntry, QueryCut, QuerySink, SinkKind
from airflow_provider_ha.checkpoints.plan_model import RestorePlan, Verdict
from airflow_provider_ha.checkpoints.restore.facts import RestoreCase, gather_facts
from airflow_provider_ha.checkpoints.restore.plan import RestoreChoices, plan_restore
from airflow_provider_ha.checkpoints.restore.plan_execution import prepare_restore
from airflow_provider_ha.checkpoints.restore.query_records import LastDirectory
from airflow_provider_ha.checkpoints.restore.select import RestoreSource
from airflow_provider_ha.checkpoints.sinks.file_sink_log import LOG, FileSinkLog, sink_log
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.jobs.model import DrainedQuery
from tests.support.spark.recorded_job import QUERY, copy_live, copy_output


pytestmark = pytest.mark.timeout(300)
LAST = 13  # of the recorded job
DRAINED = LAST + 1
TABLE = QuerySink(kind=SinkKind.FOREACH_BATCH)


@dataclass(frozen=True)
class GivenUp:
    """A run that died while it was drained.

    :param working: Its last working directory, under its first name.
    """

    working: Path
    out: Path

    @property
    def root(self) -> Path:
        """The directory of the test."""
        return self.working.parent

    def drain(self, of: str = "e2-b") -> None:
        """Fork the directory as a stop does, and plan the drain's batch there."""
        target = Path(drain_key(str(self.root / of))) / QUERY
        fork(self.working / QUERY, target, keep_planned=False)
        assert write_drain_entry(LocalTree(target)) == DRAINED

    def reach_sink(self) -> str | None:
        """Give the file sink the drain's batch; returns the digest of its entry."""
        (self.out / LOG / str(DRAINED)).write_text("v1\n")
        return FileSinkLog(self.out).digest(DRAINED)

    def plan(
        self, *, sink: QuerySink | None = None, entries: tuple[BatchEntry, ...] = (), told: DrainedQuery | None = None
    ) -> RestorePlan:
        """Plan the restore of the sharp checkpoint before the drain, when its driver is fenced."""
        pin(self.working, self.root / "pin", {QUERY: LAST}, sinks={QUERY: sink_log(str(self.out))})
        wrote = sink or QuerySink(kind=SinkKind.FILE, format="json", path=str(self.out))
        cut = QueryCut(batch=LAST, sink=wrote, entries=entries)
        now = datetime.now(timezone.utc)
        chosen = RestoreSource("checkpoint", "1", "pin", {QUERY: cut}, 1, 1, "g", "4.2.0", now)
        fence_directory(self.working)
        last = LastDirectory(LinkedWorkArea(self.root.parent), f"{self.root.name}/{self.working.name}", epoch=2, run=1)
        drained = {QUERY: told} if told else {}
        facts = gather_facts(
            RestoreCase(chosen=chosen, at=now, root=LocalTree(self.root / "pin"), last=last, drained=drained)
        )
        return plan_restore(facts, RestoreChoices(job_id="j", source_job="j"))


@pytest.fixture
def run(tmp_path: Path) -> GivenUp:
    return GivenUp(copy_live(tmp_path / "live" / "e2-b"), copy_output(tmp_path / "out"))


def ordinary(run: GivenUp) -> BatchEntry:
    """Return the record of an ordinary batch of the number that the drain has."""
    return read_entry(LocalTree(run.working / QUERY), LAST).model_copy(update={"batch": DRAINED, "commits": None})


@pytest.mark.parametrize("of", ["e2-b", "e1-a"])
def test_entry_of_an_unfinished_drain_is_set_aside_as_that_of_a_finished_one(run: GivenUp, of: str) -> None:
    """Also that of an earlier epoch, when the one that should have cleaned up after it died before it could."""
    run.drain(of)
    digest = run.reach_sink()

    plan = run.plan()
    prepare_restore(LinkedWorkArea(run.root), "pin", plan, "e3-c")

    assert (plan.verdict, plan.reasons) == (Verdict.SAFE, ())
    assert (plan.queries[QUERY].set_aside, plan.queries[QUERY].replay) == ({DRAINED: digest}, ())
    assert FileSinkLog(run.out).max_batch() == LAST


def test_drain_that_had_not_come_to_the_sink_leaves_nothing_to_set_aside(run: GivenUp) -> None:
    run.drain()

    plan = run.plan()

    assert (plan.verdict, plan.queries[QUERY].set_aside) == (Verdict.SAFE, {})


def test_without_a_drain_the_content_of_the_sink_is_unknown(run: GivenUp) -> None:
    run.reach_sink()

    assert run.plan().verdict is Verdict.LOSS_POSSIBLE


def test_sink_without_a_log_may_have_the_drains_rows(run: GivenUp) -> None:
    run.drain()

    plan = run.plan(sink=TABLE)

    assert plan.verdict is Verdict.DUPLICATES_POSSIBLE
    assert plan.reasons == (
        f"{QUERY}: the sink may have the rows of the drain's batch {DRAINED}, which cannot be taken back",
    )


def test_batch_that_the_job_planned_after_a_failed_drain_is_its_own(run: GivenUp) -> None:
    """Set aside, its rows would be lost."""
    run.drain()
    run.reach_sink()
    (run.working / QUERY / "offsets" / str(DRAINED)).write_text("garbled")

    plan = run.plan()

    assert plan.verdict is Verdict.LOSS_POSSIBLE
    assert plan.reasons == (
        f"{QUERY}: the file sink has batches up to {DRAINED}, but boundaries are recorded up to 13 only",
    )


def test_batch_that_is_recorded_as_an_ordinary_one_is_replayed(run: GivenUp) -> None:
    run.drain()
    run.reach_sink()

    plan = run.plan(entries=(ordinary(run),))

    assert [entry.batch for entry in plan.queries[QUERY].replay] == [DRAINED]
    assert (plan.verdict, plan.queries[QUERY].set_aside) == (Verdict.SAFE, {})


def test_the_drain_in_the_result_overrides_the_fork_of_an_earlier_drain(run: GivenUp) -> None:
    run.drain()
    told = DrainedQuery(batch=DRAINED, wrote=False)

    assert run.plan(sink=TABLE, told=told).verdict is Verdict.SAFE
