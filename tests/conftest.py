"""Fixtures that every level shares: one real ZooKeeper per session, a new cluster per test."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest
from typer.main import get_command

from airflow_provider_ha.clock import new_id
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.timings import Timings
from tests.support.clusters.airflow_helpers import use_own_airflow_home
from tests.support.order import spread
from tests.support.spark.class_archive import java_options


if TYPE_CHECKING:
    from airflow_provider_ha.coordination.embedded import EmbeddedZooKeeper


# Short, so that a test of a lost leader takes seconds: T = 3 s, a cut of 2.2 s is survived.
FAST = Timings(session_timeout=3.0, heartbeat_interval=0.3, heartbeat_timeout=0.5, connect_timeout=0.5, margin=0.2)


# A busy machine is no reason to fail.
hypothesis.settings.register_profile("here", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("here")

# Before any test file imports Airflow, which reads its home then.
use_own_airflow_home()

# What is imported and collected stays: to search all of it for cycles again and again is a third of the collection.
gc.disable()

# Managed drivers do not inherit this: theirs is in ``tests.support.spark.driver_helpers.CONF``.
os.environ.setdefault("SPARK_SUBMIT_OPTS", java_options())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start what goes on for a set time first, and Spark beside what waits: two cores have work all the time."""
    files = list(dict.fromkeys(item.path for item in items))
    spark = {item.path for item in items if _is_quick_spark(item)}
    unit = {path for path in files if path.is_relative_to(Path(__file__).with_name("unit"))}
    place = {path: number for number, path in enumerate(spread(files, spark, unit))}
    items.sort(key=lambda item: (item.get_closest_marker("soak") is None, place[item.path]))


def pytest_collection_finish() -> None:
    """Leave what was imported and collected out of every search for cycles: half a gigabyte, where Airflow is in it."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True, scope="session")
def _commands_are_built_once() -> Iterator[None]:
    """A test calls the CLI in its own process, and each call would build each command of it again: 80 ms."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typer.testing._get_command", cache(get_command))
        yield


def _is_quick_spark(item: pytest.Item) -> bool:
    return item.get_closest_marker("spark") is not None and item.get_closest_marker("long") is None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show what tests had to tell of themselves, also when they ran in another process."""
    seen = (report for group in terminalreporter.stats.values() for report in group)
    reports = [report for report in seen if isinstance(report, pytest.TestReport)]
    for report in reports:
        told = [text for name, text in report.user_properties if name == "told"]
        if told and report.when == "call":
            terminalreporter.section(report.nodeid.rpartition("::")[2])
            terminalreporter.write_line("\n".join(map(str, told)))


@pytest.fixture
def tell(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Have a text shown at the end of the run: figures that a reader wants to see of a test that passed."""
    return lambda text: record_property("told", text)


@pytest.fixture(scope="session")
def zookeeper_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    """A real ZooKeeper of this test process, from PySpark's own jars."""
    from airflow_provider_ha.coordination.embedded import EmbeddedZooKeeper

    with EmbeddedZooKeeper(tmp_path_factory.mktemp("zookeeper"), tick_ms=200) as server:
        yield server


@pytest.fixture
def zookeeper(zookeeper_server: EmbeddedZooKeeper, tell: Callable[[str], None]) -> str:
    """Hosts of that ZooKeeper. One that was killed from outside costs one test, not all that follow."""
    if zookeeper_server.pid is None:
        tell("the ZooKeeper of this test process was killed before this test, and is started again")
        zookeeper_server.start()
    return zookeeper_server.hosts


@pytest.fixture
def config(zookeeper: str, tmp_path: Path) -> HaConfig:
    """A cluster that no other test uses."""
    return HaConfig.build(
        zookeeper=zookeeper, storage_root=f"file://{tmp_path}/storage", cluster_id=f"c-{new_id()[:12]}", timings=FAST
    )


@pytest.fixture
def cluster_paths(config: HaConfig) -> ClusterPaths:
    """Paths of that cluster."""
    return ClusterPaths(config.root, config.cluster_id)


@pytest.fixture
def coordinator(config: HaConfig) -> Iterator[Coordinator]:
    """A session with that ZooKeeper."""
    from airflow_provider_ha.coordination._kazoo import KazooCoordinator

    session = KazooCoordinator.connect(config)
    yield session
    session.close()
