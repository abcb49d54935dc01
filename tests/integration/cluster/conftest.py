"""A cluster with a leader. Real ZooKeeper, no engine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.fleet.cluster_leader import ClusterLeader
from tests.support.clusters.cluster_helpers import AT_ONCE, Cluster


@pytest.fixture
def leader(cluster: Cluster, rival: KazooCoordinator) -> Iterator[ClusterLeader]:
    """The cluster's leader, in a separate session, as in a separate process."""
    with ClusterLeader(cluster.open(rival), by="test", address="host-a", patience=AT_ONCE) as made:
        made.lead(timeout=5)
        yield made
