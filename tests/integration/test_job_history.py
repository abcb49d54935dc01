"""``spark-ha job history``: who led, from when to when, and why it changed; and many jobs read at once."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from airflow_provider_ha.api.documents.history import history_view
from airflow_provider_ha.api.documents.overview import overview_row
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator, Create, SetData
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.fleet.fleet_overview import read_details, read_states
from airflow_provider_ha.jobs.condition import decide
from airflow_provider_ha.jobs.observe import list_jobs, read_status
from airflow_provider_ha.jobs.run_history import read_history
from airflow_provider_ha.storage.open_storage import open_store
from tests.support.clusters.shown_cluster import HOURS, ShownJob, now, write_cluster


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
    assert "3 kept; 0 failed under this driver; the job has gone on 3 times after a restore or a restart." in shown
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


def test_of_a_history_the_newest_epochs_are_read_and_the_others_counted(
    coordinator: Coordinator, cluster: ClusterPaths
) -> None:
    found = history_view(read_history(coordinator, cluster.job("orders"), epochs=2))

    assert [(run.run, [epoch.epoch for epoch in run.epochs], run.left_out) for run in found.runs] == [(2, [4, 3], 1)]
    assert found.left_out == 1
