"""Blobs that nothing names: what a leader of the cluster removes once a day, on real files."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.checkpoints.store.orphaned_blobs import OrphanCollection
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.coordinator import SetData
from airflow_provider_ha.errors import LeadershipLostError
from airflow_provider_ha.fleet import cluster_removal
from airflow_provider_ha.fleet.cluster_leader import ClusterLeader
from airflow_provider_ha.storage import keys
from airflow_provider_ha.storage.blobs import put_blob
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters.cluster_helpers import Cluster


@pytest.fixture
def client(cluster: Cluster) -> HaClient:
    """A cluster with a job, and with a blob of two days ago that nothing names."""
    cluster.submitted("flights")
    put_blob(cluster.client.store, b"an old graph")
    for path in blobs(cluster.client):
        age(path, days=2)
    return cluster.client


def blobs(client: HaClient) -> list[Path]:
    return sorted(path for path in (client.config.work_path / keys.BLOBS).rglob("*") if path.is_file())


def age(path: Path, *, days: float) -> None:
    at = path.stat().st_mtime - timedelta(days=days).total_seconds()
    os.utime(path, (at, at))


def led() -> None:
    """Prove nothing: this process leads."""


def collect_blobs(client: HaClient, prove: Callable[[], None]) -> int | None:
    return OrphanCollection(client.coordinator, client.paths, client.store, client.area, client.clock, prove).collect()


def test_what_nothing_names_goes_and_what_the_job_needs_stays(client: HaClient) -> None:
    before = len(blobs(client))

    assert collect_blobs(client, led) == 1

    assert len(blobs(client)) == before - 1


def test_it_is_done_once_a_day_by_all_leaders_together(client: HaClient) -> None:
    collect_blobs(client, led)
    put_blob(client.store, b"another graph")
    for path in blobs(client):
        age(path, days=2)

    assert collect_blobs(client, led) is None
    age(client.config.work_path / keys.BLOB_COLLECTION, days=1.1)
    assert collect_blobs(client, led) == 1


def test_nothing_goes_while_something_cannot_be_read(client: HaClient) -> None:
    before = blobs(client)
    client.coordinator.commit(SetData(client.paths.job("flights").run(1), b"garbage"))

    assert collect_blobs(client, led) == 0

    assert blobs(client) == before


def test_a_leader_that_was_deposed_during_the_search_removes_nothing(client: HaClient) -> None:
    before, asked = blobs(client), list[str]()

    def prove() -> None:
        asked.append("")
        if len(asked) > 1:
            raise LeadershipLostError("another process leads")

    with pytest.raises(LeadershipLostError):
        collect_blobs(client, prove)

    assert blobs(client) == before


def test_a_leader_that_stays_looks_after_a_while(
    cluster: Cluster, client: HaClient, rival: KazooCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_removal, "LOOK_SECONDS", 0.5)
    before, stop = len(blobs(client)), threading.Event()

    with ClusterLeader(cluster.open(rival), by="test") as leader:
        leader.lead(timeout=10)
        thread = threading.Thread(target=leader.watch, args=(stop,))
        thread.start()
        try:
            wait_until(lambda: len(blobs(client)) == before - 1, timeout=30, what="the collection")
        finally:
            stop.set()
            thread.join()


def test_a_recovery_that_does_not_stay_does_it_at_its_end(client: HaClient, spark_ha: Any) -> None:
    before = len(blobs(client))

    code, _, said = spark_ha("cluster", "recover", "--wait", "0")

    assert len(blobs(client)) == before - 1, (code, said)
