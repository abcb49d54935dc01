"""Drills of a job whose query has no state: everything but Spark itself, on a real ZooKeeper."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.verify.proof_copy import PREFIX
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator, SetData
from airflow_provider_ha.coordination.reader_leases import active
from airflow_provider_ha.errors import CheckpointCorruptError, CheckpointMissingError, JobStateError, UnknownJobError
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.job_stores import held
from airflow_provider_ha.jobs.verification import verification_records
from airflow_provider_ha.jobs.verification.job_drill import DrillLimits, DrillRequest, drill
from airflow_provider_ha.jobs.verification.job_verification import PROOFS, ProofOptions, verify_cut
from airflow_provider_ha.jobs.verification.verification_records import Drill, DrillStore, DrillVerdict
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.checkpoints.checkpoint_helpers import Job, led_job
from tests.support.checkpoints.portable_helpers import QUERY, checkpoint
from tests.support.clusters import submit_helpers as helpers


LOAD_ONLY = ProofOptions(start=False)


@pytest.fixture
def job(config: HaConfig, coordinator: Coordinator, tmp_path: Path) -> Iterator[Job]:
    """A job that runs, with two savepoints."""
    live = checkpoint(tmp_path / "live" / QUERY).parent
    with led_job(config, coordinator) as led:
        for savepoint_id, batch in (("s1", 1), ("s2", 2)):
            request = dataclasses.replace(led.request(savepoint_id, batch), cut={QUERY: batch}, graph="0" * 64)
            led.savepoints.create(led.leadership.commit, request, LocalTree(live))
        yield led


def ask(drill_id: str = "weekly", **values: Any) -> DrillRequest:
    return DrillRequest(drill_id=drill_id, requested_by="test", options=LOAD_ONLY, **values)


def damage(job: Job, savepoint_id: str) -> None:
    (job.savepoints.directory(savepoint_id) / QUERY / "offsets" / "2").write_text("v1\n{}\n{}")


def remains(job: Job) -> list[Path]:
    return list((job.config.work_path / PROOFS).iterdir())


def names_of_job(job: Job) -> list[str]:
    """Everything that lies in the job's directories, but the records of drills."""
    base = job.config.work_path / job.keys.base
    return sorted(str(path.relative_to(base)) for path in base.rglob("*") if "drills" not in path.parts)


def test_the_newest_savepoint_is_drilled_and_the_job_does_not_notice(job: Job, context: JobContext) -> None:
    before = names_of_job(job)

    done = drill(context, ask(limits=DrillLimits(max_age=600.0)))

    assert (done.verdict, done.reasons, done.source, done.cut) == (DrillVerdict.PASSED, (), "savepoint-s2", {QUERY: 2})
    assert list(done.seconds) == ["choose", "verify", "copy"]
    assert done.total_seconds > 0
    assert done.size > 0
    assert 0 < done.age_seconds < 600
    assert (names_of_job(job), remains(job)) == (before, [])
    assert active(job.coordinator, job.paths, "savepoint-s2", SystemClock()) == []


def test_a_retry_finds_the_drill_that_has_passed_and_another_request_drills_again(context: JobContext) -> None:
    first = drill(context, ask())

    assert drill(context, ask()) == first
    assert drill(context, ask("next-week")) != first
    assert [one.drill_id for one in DrillStore(context.store, context.keys).list()[0]] == ["next-week", "weekly"]


def test_a_damaged_savepoint_fails_by_its_file_is_remembered_and_is_drilled_again(
    job: Job, context: JobContext
) -> None:
    damage(job, "s2")

    first, second = drill(context, ask()), drill(context, ask())

    assert first.verdict is DrillVerdict.FAILED
    assert f"{QUERY}/offsets/2" in first.reasons[0]
    assert (first.drill_id, second.drill_id) == ("weekly", "weekly-2")
    known, unreadable = DrillStore(context.store, context.keys).list()
    assert ([one.drill_id for one in known], unreadable) == (["weekly-2", "weekly"], [])
    assert remains(job) == []


def test_a_bit_that_no_format_would_notice_fails_by_the_digest(job: Job, context: JobContext) -> None:
    path = job.savepoints.directory("s2") / QUERY / "metadata"
    path.write_text(path.read_text().replace("9b2d", "9b2e"))

    done = drill(context, ask())

    assert done.verdict is DrillVerdict.FAILED
    assert done.reasons == (f"{QUERY}/metadata: its digest is not the one in the manifest",)


def test_an_old_savepoint_fails_when_its_age_is_limited(context: JobContext) -> None:
    done = drill(context, ask(limits=DrillLimits(max_age=0.001)))

    assert done.verdict is DrillVerdict.FAILED
    assert "s old" in done.reasons[0]


def test_an_application_that_is_not_in_storage_is_a_failed_restore(context: JobContext) -> None:
    done = drill(context, dataclasses.replace(ask(), options=ProofOptions()))

    assert done.verdict is DrillVerdict.FAILED
    assert "blobs" in done.reasons[0]


def test_an_older_one_can_be_named(context: JobContext) -> None:
    assert drill(context, ask(start_from="savepoint-s1")).source == "savepoint-s1"


def test_a_job_without_savepoints_has_nothing_to_drill(config: HaConfig, coordinator: Coordinator) -> None:
    config.work_path.mkdir(parents=True)
    with led_job(config, coordinator) as led, pytest.raises(CheckpointMissingError, match="no savepoint"):
        drill(helpers.context(config, coordinator, job_id=led.paths.job_id), ask())


def test_an_unknown_job_is_refused(config: HaConfig, coordinator: Coordinator) -> None:
    with pytest.raises(UnknownJobError):
        drill(helpers.context(config, coordinator, job_id="no-such-job"), ask())


def test_a_savepoint_whose_pointer_cannot_be_read_may_be_the_newest(job: Job, context: JobContext) -> None:
    node = job.coordinator.get(job.paths.savepoint("s2"))
    job.coordinator.commit(SetData(job.paths.savepoint("s2"), b"not a record", node.version))

    with pytest.raises(CheckpointCorruptError, match="may be the newest"):
        drill(context, ask())


def test_what_is_held_is_not_disposed_of_and_its_lease_is_renewed_until_it_is_released(
    job: Job, context: JobContext
) -> None:
    def lease_ids() -> set[str]:
        found = active(job.coordinator, job.paths, "savepoint-s2", SystemClock())
        return {lease.lease_id for lease in found}

    with held(context, lambda: "savepoint-s2", by="test", renew_seconds=0.05):
        first = lease_ids()
        wait_until(lambda: lease_ids() and not lease_ids() & first, timeout=30, what="the lease to be renewed")
        with pytest.raises(JobStateError, match="being read"):
            job.savepoints.dispose(job.leadership.commit, "s2")

    assert lease_ids() == set()
    job.savepoints.dispose(job.leadership.commit, "s2")


def test_what_was_removed_between_choice_and_lease_is_chosen_again(job: Job, context: JobContext) -> None:
    chosen = iter(["savepoint-gone", "savepoint-s2"])

    with held(context, lambda: next(chosen), by="test") as name:
        assert name == "savepoint-s2"

    assert active(job.coordinator, job.paths, "savepoint-gone", SystemClock()) == []


def test_only_the_newest_records_are_kept(context: JobContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification_records, "KEPT_AT_MOST", 2)
    records = DrillStore(context.store, context.keys)
    done = drill(context, ask("first"))
    made = context.config.work_path / context.keys.drill("first")
    os.utime(made, (1, 1))

    for name in ("second", "third"):
        records.add(done.model_copy(update={"drill_id": name}))

    assert sorted(one.drill_id for one in records.list()[0]) == ["second", "third"]


def test_a_record_that_cannot_be_read_is_told_beside_the_others(context: JobContext) -> None:
    records = DrillStore(context.store, context.keys)
    drill(context, ask())
    context.store.write(context.keys.drill("broken"), b"{}")

    known, unreadable = records.list()

    assert [one.drill_id for one in known] == ["weekly"]
    assert [one.name for one in unreadable] == [context.keys.drill("broken")]


def test_of_two_drills_with_one_id_the_first_record_counts(context: JobContext) -> None:
    records = DrillStore(context.store, context.keys)
    first: Drill = drill(context, ask())

    assert records.add(first.model_copy(update={"requested_by": "another"})) == first


def test_what_a_drill_left_that_was_killed_is_collected_by_the_next_one(job: Job, context: JobContext) -> None:
    left = job.config.work_path / PROOFS / f"{PREFIX}left"
    (left / "application").mkdir(parents=True)
    os.utime(left, (1, 1))

    drill(context, ask())

    assert remains(job) == []


def test_the_command_drills_and_shows_what_came_of_it(spark_ha: Any, job: Job) -> None:
    passed = spark_ha("drill", "run", "flights", "--load-only", "--json")
    too_old = spark_ha("drill", "run", "flights", "--load-only", "--max-age", "0.001")
    damage(job, "s2")
    failed = spark_ha("drill", "run", "flights", "--load-only")
    code, table, _ = spark_ha("drill", "list", "flights")
    listed = json.loads(spark_ha("drill", "list", "flights", "--json")[1])

    assert (passed[0], too_old[0], failed[0], code) == (0, 1, 1, 0)
    assert json.loads(passed[1]) == listed["drills"][-1]
    assert [one["verdict"] for one in listed["drills"]] == ["FAILED", "FAILED", "PASSED"]
    assert "s old, and at most 0.001 s are allowed" in too_old[1]
    assert f"{QUERY}/offsets/2" in failed[1]
    assert table.count("savepoint-s2") == 3


def test_a_cut_is_verified_by_name_and_no_older_one_takes_its_place(job: Job, context: JobContext) -> None:
    damage(job, "s2")

    bad = verify_cut(context, "latest", depth="prove", by="test", options=LOAD_ONLY)
    good = verify_cut(context, "savepoint-s1", depth="prove", by="test", options=LOAD_ONLY)

    assert (bad.name, bad.restorable, bad.proofs) == ("savepoint-s2", False, {})
    assert bad.problem is not None
    assert bad.problem[0] == f"{QUERY}/offsets/2"
    assert (good.name, good.restorable, good.problem) == ("savepoint-s1", True, None)
    assert good.proofs[QUERY].proven is True
    assert good.reports[QUERY].startable is True
