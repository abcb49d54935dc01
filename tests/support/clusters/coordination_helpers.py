"""What tests of the coordination share: candidates that differ only in what a test is about."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.election import acquire
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.coordination.paths import ClusterPaths, JobPaths


JOB = "flights"


class HeldClock:
    """A clock that a test moves by hand.

    :ivar ahead: Seconds by which the wall clock was set forward; it moves with the lease time otherwise.
    """

    def __init__(self) -> None:
        self.time = 1000.0
        self.ahead = 0.0

    def lease_time(self) -> float:
        return self.time

    def now(self) -> datetime:
        return datetime(2013, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=self.time + self.ahead)


def job_paths(config: HaConfig) -> JobPaths:
    """Return the paths of the job that all tests of an election fight for."""
    return ClusterPaths(config.root, config.cluster_id).job(JOB)


def lead(config: HaConfig, coordinator: Coordinator, **options: Any) -> Leadership:
    """Take the job's lock with what most tests do not care about."""
    settings: dict[str, Any] = {
        "timings": config.timings,
        "clock": SystemClock(),
        "describe": lambda epoch: f"epoch {epoch}".encode(),
        "timeout": 10.0,
    }
    return acquire(coordinator, job_paths(config), **(settings | options))


def session_through(config: HaConfig, hosts: str) -> KazooCoordinator:
    """Connect to the same cluster by other hosts, for example a proxy."""
    return KazooCoordinator.connect(config.model_copy(update={"zookeeper": hosts}))


def ignore(reason: object) -> None:
    """Do nothing about a lost leadership: the test looks at ``lost`` itself."""
    del reason


def outcome(action: Callable[[], object]) -> str:
    """Return the name of the error that *action* raises, or ``"done"``."""
    try:
        action()
    except Exception as error:  # noqa: BLE001  # the error is the outcome
        return type(error).__name__
    return "done"
