"""What the contract suites run on: a real ZooKeeper and the fake ensemble, with the same handles on what fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.raw_socket import close_session
from airflow_provider_ha.testing.proxy import FaultProxy
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.fake import FakeCoordinator, FakeEnsemble


class Cluster(Protocol):
    """One ensemble, and one session of it whose connection a test can break: ``fragile``."""

    @property
    def fragile(self) -> Coordinator:
        """The session whose connection can be broken."""

    def connect(self, *, session_timeout: float | None = None) -> Coordinator:
        """Open another session."""

    def eventually(self, predicate: Callable[[], object], what: str) -> None:
        """Let time pass until something is true."""

    def lose_answer(self, *, containing: str) -> None:
        """Apply the next write of ``fragile`` and lose its answer."""

    def cut(self) -> None:
        """Cut ``fragile`` off."""

    def heal(self) -> None:
        """Let it connect again."""

    def cut_for_a_moment(self) -> None:
        """Cut ``fragile`` off for less than its session lasts."""

    def end_session(self) -> None:
        """End the session of ``fragile`` from outside."""

    def close(self) -> None:
        """Close every session."""


class RealCluster:
    """A real server; ``fragile`` goes through a proxy."""

    def __init__(self, config: HaConfig) -> None:
        self._config = config
        self._proxy = FaultProxy(config.zookeeper).__enter__()
        self.fragile = KazooCoordinator.connect(config.model_copy(update={"zookeeper": self._proxy.hosts}))
        self._sessions: list[Coordinator] = [self.fragile]

    def connect(self, *, session_timeout: float | None = None) -> Coordinator:
        config = self._config
        if session_timeout is not None:
            timings = config.timings.model_copy(update={"session_timeout": session_timeout})
            config = config.model_copy(update={"timings": timings})
        self._sessions.append(KazooCoordinator.connect(config))
        return self._sessions[-1]

    def eventually(self, predicate: Callable[[], object], what: str) -> None:
        wait_until(predicate, timeout=8, what=what)

    def lose_answer(self, *, containing: str) -> None:
        self._proxy.cut_after_transaction(containing=containing)

    def cut(self) -> None:
        self._proxy.cut()
        self.eventually(lambda: self.fragile.state.value == "suspended", "the cut to be noticed")

    def heal(self) -> None:
        self._proxy.heal()

    def cut_for_a_moment(self) -> None:
        self.cut()
        self.heal()

    def end_session(self) -> None:
        assert self.fragile.session is not None
        assert close_session(self._config, self.fragile.session)

    def close(self) -> None:
        for session in self._sessions:
            session.close()
        self._proxy.__exit__(None, None, None)


class FakeCluster:
    """The fake ensemble; its time passes while a process waits."""

    def __init__(self, config: HaConfig, ensemble: FakeEnsemble) -> None:
        self._config = config
        self._ensemble = ensemble
        self.fragile: FakeCoordinator = ensemble.connect(config)

    def connect(self, *, session_timeout: float | None = None) -> Coordinator:
        return self._ensemble.connect(self._config, timeout=session_timeout)

    def eventually(self, predicate: Callable[[], object], what: str) -> None:
        for _ in range(160):
            if predicate():
                return
            self._ensemble.advance(0.05)
        raise TimeoutError(what)

    def lose_answer(self, *, containing: str) -> None:
        self._ensemble.drop_reply(self.fragile, containing=containing)

    def cut(self) -> None:
        self._ensemble.disconnect(self.fragile, seconds=1e6)

    def heal(self) -> None:
        self._ensemble.reconnect(self.fragile)

    def cut_for_a_moment(self) -> None:
        self._ensemble.disconnect(self.fragile, seconds=0.3)

    def end_session(self) -> None:
        assert self.fragile.session is not None
        assert self._ensemble.close_session(self.fragile.session)

    def close(self) -> None:
        for client in self._ensemble.clients:
            client.close()
