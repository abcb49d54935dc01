"""A ZooKeeper server before 3.6, which ends a session that asks it for many reads in one request."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination import _kazoo_reads
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination._kazoo_reads import MANY
from airflow_provider_ha.coordination.coordinator import Create, Reads
from airflow_provider_ha.coordination.embedded import EmbeddedZooKeeper
from airflow_provider_ha.host.java import find_jars
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.ivy import Wanted, jars


pytestmark = pytest.mark.long

OLD = "3.5.10"


@pytest.fixture(scope="module")
def old_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    """A server of ZooKeeper 3.5, with the libraries that Spark ships."""
    folder = tmp_path_factory.mktemp("old-zookeeper")
    theirs = folder / "jars"
    theirs.mkdir()
    for jar in find_jars(None):
        if not jar.name.startswith("zookeeper-"):
            shutil.copy(jar, theirs)
    wanted = tuple(
        Wanted("org.apache.zookeeper", name, OLD, transitive=False) for name in ("zookeeper", "zookeeper-jute")
    )
    for jar in jars(f"zookeeper-{OLD}", wanted):
        shutil.copy(jar, theirs)
    with EmbeddedZooKeeper(folder / "data", jars=theirs) as server:
        yield server


def test_many_reads_leave_the_session_of_an_old_server_alive(
    old_server: EmbeddedZooKeeper, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_kazoo_reads, "_ASK_AGAIN", 0.0)  # on a busy machine it may answer the second question
    coordinator = KazooCoordinator.connect(HaConfig.build(zookeeper=old_server.hosts, storage_root="file:///unused"))
    coordinator.ensure("/ha")
    coordinator.commit(Create("/ha/leader", b"me", ephemeral=True))
    session = coordinator.session

    def warnings() -> list[str]:
        """Read much, then return what was said of the server."""
        seen = coordinator.read(Reads(("/ha/leader", *(f"/ha/{number}" for number in range(MANY))), ("/ha",)))
        assert seen.there("/ha/leader").data == b"me"
        assert (seen.nodes["/ha/0"], seen.lists["/ha"]) == (None, ["leader"])
        return [each for each in (record.getMessage() for record in caplog.records) if "older than 3.6" in each]

    once = [f"ZooKeeper ({old_server.hosts}) is older than 3.6: many jobs are read slowly"]
    assert wait_until(warnings, timeout=60, what="an answer of the old server") == once
    assert warnings() == once
    assert coordinator.session == session
    coordinator.close()
