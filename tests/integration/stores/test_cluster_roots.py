"""The marker of a cluster in its roots, wherever these lie: made once, and missed before anything is written."""

from __future__ import annotations

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.errors import (
    CheckpointMissingError,
    ConfigurationError,
    ObjectMissingError,
    StorageUnavailableError,
)
from airflow_provider_ha.storage.open_storage import open_root, storage_uri
from airflow_provider_ha.storage.roots import MARKER, ClusterRoots, read_marker


WORKING = "jobs/flights/live/e1-a"


def markers(config: HaConfig) -> list[ClusterRoots | None]:
    return [read_marker(open_root(config, uri)) for uri in (storage_uri(config), config.work_uri)]


def test_both_roots_get_the_identity_that_zookeeper_has(config: HaConfig, coordinator: Coordinator) -> None:
    client = HaClient(config, coordinator)

    client.store.write("a", b"")
    before = markers(config)
    HaClient(config, coordinator).store.write("a", b"")

    assert before[0] is not None
    assert before == markers(config) == [before[0], before[0]]
    assert client.roots.known()


@pytest.mark.parametrize("root", ["storage", "work"])
def test_what_lost_its_marker_is_not_written_to(config: HaConfig, coordinator: Coordinator, root: str) -> None:
    HaClient(config, coordinator).store.write("a", b"")
    open_root(config, storage_uri(config) if root == "storage" else config.work_uri).delete(MARKER)
    client = HaClient(config, coordinator)

    for act in (lambda: client.store.write("b", b""), lambda: client.area.create(WORKING), client.area.require):
        with pytest.raises(StorageUnavailableError, match="not mounted"):
            act()
    with pytest.raises(ObjectMissingError):
        open_root(config, storage_uri(config)).read("b")


def test_a_directory_is_gone_only_from_a_root_that_is_there(config: HaConfig, coordinator: Coordinator) -> None:
    client = HaClient(config, coordinator)
    client.store.write("a", b"")
    with pytest.raises(CheckpointMissingError):
        client.area.fence(WORKING)

    open_root(config, config.work_uri).delete(MARKER)

    with pytest.raises(StorageUnavailableError):
        client.area.fence(WORKING)


def test_a_root_of_another_cluster_is_refused(config: HaConfig, coordinator: Coordinator) -> None:
    HaClient(config, coordinator).store.write("a", b"")
    root = open_root(config, config.work_uri)
    root.write(MARKER, ClusterRoots(uuid="of another", storage="s", work="w").to_bytes())

    with pytest.raises(ConfigurationError, match="which is not the same storage"):
        HaClient(config, coordinator).store.write("b", b"")
