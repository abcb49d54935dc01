"""``spark-ha job history`` and ``job show``: leaders, reasons of changes, and queries not started yet."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.api.documents.history import history_view
from airflow_provider_ha.api.documents.overview import overview_row
from airflow_provider_ha.checkpoints.model import QuerySink, SinkKind
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.cli import session
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.coordinator import Coordinator, Create, SetData
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.driver.queries.resting_queries import RestingQuery
from airflow_provider_ha.fleet.fleet_overview import read_details, read_states
from airflow_provider_ha.jobs.condition import decide
from airflow_provider_ha.jobs.model import JobState, QueryStatus, Status
from airflow_provider_ha.jobs.move.move_records import MoveRecord
from airflow_provider_ha.jobs.observe import create_job, list_jobs, read_status
from airflow_provider_ha.jobs.run_history import read_history
from airflow_provider_ha.jobs.runs.submissions import StartTimes, StateRestore, SubmissionExit
from airflow_provider_ha.storage.open_storage import open_store
from tests.support.checkpoints.portable_helpers import checkpoint
from tests.support.clusters.rebuild_helpers import drive, job, submit
from tests.support.clusters.shown_cluster import HOURS, ShownJob, break_storage, now, write_cluster


SECOND = timedelta(seconds=1)


@pytest.fixture
def cluster(config: HaConfig, coordinator: Coordinator, cluster_paths: ClusterPaths) -> ClusterPaths:
    """A cluster with jobs in every state."""
    write_cluster(coordinator, open_store(config), cluster_paths)
    return cluster_paths


def test_each_epoch_has_its_leader_its_time_and_why_it_ended(coordinator: Coordinator, cluster: ClusterPaths) -> None:
    newest, first = history_view(read_history(coordinator, cluster.job("orders"))).runs

    assert [(epoch.epoch, epoch.host, epoch.end) for epoch in newest.epochs] == [
        (4, "worker-1", "leads"),
        (3, "worker-1", "lost"),
        (2, "worker-2", "lost"),
    ]
    assert [epoch.reason.partition("'")[0] for epoch in newest.epochs] == [
        "",
        "APPLICATION KeyError: ",
        "its session ended in ZooKeeper; the end of its processes is not proven",
    ]
    assert [epoch.recovered_by for epoch in newest.epochs] == [None, None, "cluster leader on airflow-1"]
    assert (first.state, first.epochs[0].end, first.epochs[0].reason) == (
        "FINISHED",
        "finished",
        "FINISHED: stopped by orders.stop",
    )
    assert (newest.source, first.source) == ("savepoint-before-upgrade of orders", None)


def test_an_epoch_ends_when_the_next_one_is_submitted_if_nothing_else_is_known(
    coordinator: Coordinator, orders: ShownJob
) -> None:
    at = now()
    orders.submit(at - HOURS).lead(at - HOURS).lose(at, proven=False).submit_again(at - timedelta(minutes=5))

    (run,) = history_view(read_history(coordinator, orders.paths)).runs

    assert [(epoch.end, epoch.ended_at) for epoch in run.epochs] == [
        ("starting", None),
        ("lost", at - timedelta(minutes=5)),
    ]


def test_a_record_that_cannot_be_read_hides_no_other(coordinator: Coordinator, cluster: ClusterPaths) -> None:
    paths = cluster.job("orders")
    coordinator.commit(SetData(paths.submission_led(2, 1), b"{}"))

    found = history_view(read_history(coordinator, paths))

    assert [epoch.epoch for epoch in found.runs[0].epochs] == [4, 3, None]
    assert [each.name for each in found.unreadable] == [paths.submission_led(2, 1)]


def test_only_so_many_runs_are_read_as_are_asked_for(coordinator: Coordinator, cluster: ClusterPaths) -> None:
    found = history_view(read_history(coordinator, cluster.job("orders"), runs=1))

    assert [run.run for run in found.runs] == [2]
    assert found.left_out == 1


def test_an_attempt_that_was_a_standby_driver_says_so(spark_ha: Any, orders: ShownJob) -> None:
    at = now()
    orders.submit(at - HOURS).lead(at - HOURS).lose(at).submit_again(at, standby=True).lead(at)

    _, shown, _ = spark_ha("job", "history", "orders")
    document = json.loads(spark_ha("job", "history", "orders", "--json")[1])

    assert re.findall(r"^1 +([12](?:, promoted standby driver)?) ", shown, re.MULTILINE) == [
        "2, promoted standby driver",
        "1",
    ]
    assert [epoch["standby"] for epoch in document["runs"][0]["epochs"]] == [True, False]


def test_the_command_prints_it(spark_ha: Any, cluster: ClusterPaths) -> None:
    code, shown, _ = spark_ha("job", "history", "orders", "--runs", "1")
    document = json.loads(spark_ha("job", "history", "orders", "--json")[1])

    assert code == 0
    assert "worker-2" in shown
    assert "1 earlier runs are not shown" in shown
    assert [run["run"] for run in document["runs"]] == [2, 1]


def test_the_command_lists_checkpoints_with_the_columns_and_counts_of_the_page(
    spark_ha: Any, cluster: ClusterPaths
) -> None:
    code, shown, _ = spark_ha("checkpoint", "list", "orders")
    document = json.loads(spark_ha("checkpoint", "list", "orders", "--json")[1])

    assert code == 0
    assert shown.splitlines()[0].split() == ["CHECKPOINT", "TAKEN", "SECONDS", "BYTES", "WHY", "RUN", "EPOCH", "CUT"]
    assert shown.splitlines()[1].split()[2:4] == ["0.84", "3412000000"]
    assert "3 kept; 0 failed under this driver; the job has resumed 3 times from one of them." in shown
    assert (document["checkpoints"][0]["seconds"], document["checkpoints"][0]["state_size"]) == (0.84, 3_412_000_000)
    assert (document["failed"], document["restored"]) == (0, 3)


def test_a_job_that_is_not_there_is_named_with_what_to_do(spark_ha: Any, cluster: ClusterPaths) -> None:
    code, _, errors = spark_ha("job", "history", "nothing")

    assert code == 1
    assert "job 'nothing' is not known" in errors
    assert "spark-ha job list" in errors


def test_states_and_details_say_what_a_whole_read_says(coordinator: Coordinator, cluster: ClusterPaths) -> None:
    jobs = list_jobs(coordinator, cluster)
    snapshots = [read_status(coordinator, cluster.job(job_id)) for job_id in jobs]

    states, details = read_states(coordinator, cluster, jobs, now=now()), read_details(coordinator, cluster, jobs)

    assert [listed.state for listed in states] == [snapshot.state for snapshot in snapshots]
    assert [detail.snapshot for detail in details] == snapshots
    assert {decide(listed, None, now()).state for listed in states} == {"RUNNING", "LOST", "FAILED"}


def test_a_row_says_what_is_wrong_and_how_often_it_was_restarted(
    coordinator: Coordinator, cluster: ClusterPaths
) -> None:
    orders, payments, clicks = (
        overview_row(detail, now=now())
        for detail in read_details(coordinator, cluster, ["orders", "payments", "clicks"], since=now() - 24 * HOURS)
    )

    assert (orders.needs_attention, orders.restarts, orders.checkpoint, orders.host) == (False, 2, 3, "worker-1")
    assert (payments.state, payments.problem.partition(" KeyError")[0]) == ("LOST", "attempt 1: APPLICATION")
    assert (clicks.state, clicks.problem.partition(":")[0]) == ("FAILED", "the same error came 3 times at batch 310")


@pytest.mark.parametrize("newest", ["submitted", "led", "lost", "led for long", "first loss"])
def test_list_and_filter_agree_about_a_job_that_fails_again_and_again(
    coordinator: Coordinator, orders: ShownJob, cluster_paths: ClusterPaths, newest: str
) -> None:
    at, minute = now(), timedelta(minutes=1)
    begin = at - (60 if newest == "led for long" else 5) * minute
    orders.submit(begin).lead(begin).status(begin).lose(begin + minute, reason="killed")
    if newest != "first loss":
        orders.submit_again(begin + minute).lead(begin + minute).lose(begin + 2 * minute, reason="killed again")
    orders.submit_again(begin + 2 * minute)
    if newest.startswith("led") or newest == "lost":
        orders.lead(begin + 2 * minute).status(begin + 2 * minute)
    if newest == "lost":
        orders.lose(begin + 3 * minute, reason="killed for the third time")

    (listed,) = read_states(coordinator, cluster_paths, ["orders"], now=at)
    (detail,) = read_details(coordinator, cluster_paths, ["orders"])
    row = overview_row(detail, now=at)

    assert (
        decide(listed, None, at).needs_person == row.needs_attention == (newest not in {"led for long", "first loss"})
    )
    assert bool(row.problem) == (newest != "led for long")


def test_one_job_that_cannot_be_read_and_one_in_quarantine_hide_no_other(
    coordinator: Coordinator, cluster: ClusterPaths
) -> None:
    coordinator.ensure(cluster.quarantine)
    coordinator.commit(
        SetData(cluster.job("clicks").status, b"<script>"), Create(cluster.quarantined("payments"), b"x")
    )
    jobs = ["clicks", "payments", "orders", "gone"]

    details = [overview_row(detail, now=now()) for detail in read_details(coordinator, cluster, jobs)]

    assert [row.state for row in details] == ["UNREADABLE", "QUARANTINED", "RUNNING", "UNREADABLE"]
    assert [
        decide(listed, None, now()).needs_person for listed in read_states(coordinator, cluster, jobs[:3], now=now())
    ] == [
        True,
        True,
        False,
    ]


def test_each_epoch_has_the_restore_of_its_state(coordinator: Coordinator, orders: ShownJob) -> None:
    at = now()
    first, second = StateRestore(store_files=8), StateRestore(copy_files=8)
    orders.submit(at - HOURS).lead(at - HOURS).lose(at, proven=False)
    left = SubmissionExit(code=-9, state_restores={"totals": first}, at=at)
    coordinator.commit(Create(orders.paths.submission_exit(1, 1), left.to_bytes()))
    orders.submit_again(at).lead(at)
    query = QueryStatus(planned=1, committed=1, state_restore=second)
    status = Status(state=JobState.RUNNING, run=1, epoch=2, queries={"totals": query}, at=at)
    coordinator.commit(Create(orders.paths.status, status.to_bytes()))

    (run,) = history_view(read_history(coordinator, orders.paths)).runs

    assert [epoch.state_restores for epoch in run.epochs] == [{"totals": second}, {"totals": first}]


def test_each_epoch_has_the_time_to_its_first_commit(coordinator: Coordinator, orders: ShownJob) -> None:
    at = now()
    orders.submit(at - HOURS).lead(at - HOURS).lose(at, proven=False)
    left = SubmissionExit(code=-9, times=StartTimes(launched_at=at, committed_at=at + 14.5 * SECOND), at=at)
    coordinator.commit(Create(orders.paths.submission_exit(1, 1), left.to_bytes()))
    orders.submit_again(at).lead(at)
    times = StartTimes(launched_at=at, committed_at=at + 9.25 * SECOND)
    status = Status(state=JobState.RUNNING, run=1, epoch=2, times=times, at=at)
    coordinator.commit(Create(orders.paths.status, status.to_bytes()))

    (run,) = history_view(read_history(coordinator, orders.paths)).runs

    assert [epoch.first_commit_seconds for epoch in run.epochs] == [9.25, 14.5]


def test_a_recovery_shows_its_phases_from_the_proof_of_death_to_the_first_commit(
    coordinator: Coordinator, orders: ShownJob
) -> None:
    at = now()
    orders.submit(at - HOURS).lead(at - HOURS).lose(at, proven=False)
    coordinator.commit(Create(orders.paths.submission_exit(1, 1), SubmissionExit(code=-9, at=at).to_bytes()))
    orders.submit_again(at + SECOND).lead(at + 3 * SECOND)
    times = StartTimes(bound_at=at + 3.5 * SECOND, started_at=at + 4 * SECOND, committed_at=at + 6 * SECOND)
    status = Status(state=JobState.RUNNING, run=1, epoch=2, times=times, at=at)
    coordinator.commit(Create(orders.paths.status, status.to_bytes()))

    (run,) = history_view(read_history(coordinator, orders.paths)).runs

    recovered, first = run.epochs
    assert first.phases == {}
    assert recovered.phases == {
        "submit": 1.0,
        "lead": 2.0,
        "bind": 0.5,
        "start": 0.5,
        "commit": 2.0,
        "total": 6.0,
    }


def test_of_a_history_the_newest_epochs_are_read_and_the_others_counted(
    coordinator: Coordinator, cluster: ClusterPaths
) -> None:
    found = history_view(read_history(coordinator, cluster.job("orders"), epochs=2))

    assert [(run.run, [epoch.epoch for epoch in run.epochs], run.left_out) for run in found.runs] == [(2, [4, 3], 1)]
    assert found.left_out == 1


def test_a_query_that_is_not_started_yet_is_named_with_where_it_rests(
    spark_ha: Any, config: HaConfig, coordinator: KazooCoordinator, tmp_path: Path
) -> None:
    context = job(config, coordinator, "flights")
    driver = drive(context, submit(context, tmp_path))
    directory = checkpoint(tmp_path / "live" / "late")
    late = RestingQuery("late", LocalTree(directory), QuerySink(kind=SinkKind.FILE, path="/data/late"))
    driver.writer._registry.expect([late], complete=True)

    driver.writer.publish_status(None)

    code, shown, _ = spark_ha("job", "show", "flights")
    assert code == 0
    assert next(line.split() for line in shown.splitlines() if "late" in line) == [
        "late", "not", "yet", "2", "2", "-", "-", "-", "/data/late",
    ]  # fmt: skip
    document = json.loads(spark_ha("job", "show", "flights", "--json")[1])
    shown_query = document["not_started"]["late"]
    assert {name: value for name, value in shown_query.items() if value is not None} == {
        "planned": 2,
        "committed": 2,
        "sink": "/data/late",
        "replayed": 0,
    }
    driver.leadership.release()


def test_a_job_of_which_only_the_epoch_is_left_has_no_run_and_no_state(
    spark_ha: Any, config: HaConfig, coordinator: KazooCoordinator
) -> None:
    context = job(config, coordinator, "erased")
    create_job(coordinator, context.paths)

    listed = json.loads(spark_ha("job", "list", "--json")[1])
    shown = json.loads(spark_ha("job", "show", "erased", "--json")[1])

    assert [(each["job_id"], each["state"], each["run"]) for each in listed["jobs"]] == [("erased", "NO_RUN", None)]
    assert (shown["state"], shown["run"]) == ("NO_RUN", None)


@pytest.mark.parametrize(
    ("run", "sentence"),
    [(None, "is being moved to cluster zk:2181/spark-ha/s3 (s3://bucket/s3)"), (3, "(s3://bucket/s3) on 2026-11-21")],
    ids=["on-its-way", "there"],
)
def test_a_job_that_was_moved_is_shown_with_its_place(
    spark_ha: Any, config: HaConfig, coordinator: KazooCoordinator, run: int | None, sentence: str
) -> None:
    context = job(config, coordinator, "gone")
    create_job(coordinator, context.paths)
    moved = MoveRecord(
        move_id="move-1",
        cluster="zk:2181/spark-ha/s3",
        place="s3://bucket/s3",
        run=run,
        by="me",
        at=datetime(2026, 11, 21, 12, tzinfo=timezone.utc),
    )
    coordinator.commit(Create(context.paths.moved, moved.to_bytes()))

    shown = spark_ha("job", "show", "gone")[1]
    document = json.loads(spark_ha("job", "show", "gone", "--json")[1])

    assert sentence in next(line for line in shown.splitlines() if line.startswith("moved"))
    assert document["moved"] == {
        "cluster": "zk:2181/spark-ha/s3",
        "place": "s3://bucket/s3",
        "move_id": "move-1",
        "run": run,
        "by": "me",
        "at": "2026-11-21T12:00:00Z",
    }


def test_a_watch_shows_the_jobs_again_until_ctrl_c(
    spark_ha: Any, config: HaConfig, coordinator: KazooCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second look sees what was made after the first one."""
    looks: list[float] = []

    def wait(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 2:
            raise KeyboardInterrupt
        create_job(coordinator, job(config, coordinator, "late").paths)

    # In this module only: a thread of another test may sleep as well, and would get the interrupt.
    monkeypatch.setattr(session, "sleep", wait)

    code, out, _ = spark_ha("job", "list", "--watch", "--interval", "3")

    assert (code, looks) == (0, [3.0, 3.0])
    assert out.splitlines()[0] == "no job is known in this cluster"
    assert "late" in out


def test_the_command_shows_the_standby_drivers_of_a_job(spark_ha: Any, cluster: ClusterPaths) -> None:
    _, shown, _ = spark_ha("job", "show", "sensor-01")
    document = json.loads(spark_ha("job", "show", "sensor-01", "--json")[1])

    assert re.search(r"standbys +1 of 2 ready", shown)
    assert re.search(r"ready +worker-1 +5000 +session", shown)
    assert [document["standbys"][name] for name in ("requested", "ready")] == [2, 1]
    assert [each["level"] for each in document["standbys"]["drivers"]] == ["session", "connected"]
    assert document["standbys"]["drivers"][1]["note"].startswith("no warm-up")


def test_a_job_without_standby_drivers_reads_none(spark_ha: Any, cluster: ClusterPaths) -> None:
    document = json.loads(spark_ha("job", "show", "orders", "--json")[1])

    assert document["standbys"] == {"requested": 0, "ready": 0, "drivers": []}


def test_standby_drivers_are_shown_although_storage_does_not_answer(
    spark_ha: Any, cluster: ClusterPaths, config: HaConfig
) -> None:
    break_storage(config)

    document = json.loads(spark_ha("job", "show", "sensor-01", "--json")[1])

    assert [document["standbys"][name] for name in ("requested", "ready")] == [None, 1]
