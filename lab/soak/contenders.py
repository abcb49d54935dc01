"""Who wants to lead in the soak: places that are never empty for long, each with its own way to every member."""

from __future__ import annotations

import signal
from contextlib import ExitStack
from pathlib import Path

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.raw_socket import close_session
from airflow_provider_ha.testing.proxy import FaultProxy
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.ensemble.servers import EmbeddedEnsemble
from tests.support.leadership.history import History
from tests.support.leadership.job_processes import JobProcess


JOB = "soak"
START_SECONDS = 60.0  # a process on a machine that does other things as well
PACE = 0.1  # seconds between two checkpoints


class Contender:
    """One place: when its process is dead, a fresh one contends (one process, one leadership).

    :param config: The cluster, reached straight.
    :param folder: Where histories and session files lie.
    :param blind: Whether its processes never doubt that they lead, so that the fence alone stops them.
    """

    def __init__(
        self, name: str, config: HaConfig, ensemble: EmbeddedEnsemble, folder: Path, stack: ExitStack, *, blind: bool
    ) -> None:
        self.proxies = [stack.enter_context(FaultProxy(member.hosts)) for member in ensemble.members]
        self._name = name
        self._blind = blind
        self._folder = folder
        self._straight = config
        hosts = ",".join(proxy.hosts for proxy in self.proxies)
        self._config = config.model_copy(update={"zookeeper": hosts})
        self._lives = 0
        self._current: JobProcess | None = None
        self._buried = True

    @property
    def pid(self) -> int | None:
        """Process id of the one that lives."""
        return self._current.process.pid if self._current and self._current.process.poll() is None else None

    def revive(self, history: History) -> None:
        """Start a process when there is none."""
        if self.pid is not None:
            return
        self.bury(history)
        self._lives += 1
        actor = f"{self._name}-{self._lives}"
        self._current = JobProcess(self._config, self._folder, actor, job_id=JOB, pace=PACE, blind=self._blind)
        self._buried = False

    def await_connected(self) -> None:
        """Wait until its process has a session, or has ended."""
        session = self._folder / f"{self._name}-{self._lives}.session"
        wait_until(
            lambda: session.exists() or self.pid is None, timeout=START_SECONDS, what=f"a session of {session.stem}"
        )

    def send(self, number: signal.Signals) -> None:
        """Send a signal to its process, if there is one."""
        if self._current is not None and self.pid is not None:
            self._current.signal(number)

    def kill(self, history: History) -> None:
        """Kill its process, and take note once its death is proven."""
        self.send(signal.SIGKILL)
        self.bury(history)

    def bury(self, history: History) -> None:
        """Wait for the end of its process, and take note of it."""
        if self._current is not None and not self._buried:
            self._current.process.wait()
            self._buried = True
            history.note("died", victim=self._current.actor)

    def close_session(self) -> bool:
        """End the session of a dead process, as its supervisor would."""
        assert self.pid is None
        return self._current is not None and close_session(self._straight, self._current.credentials)

    def heal(self) -> None:
        """Let it reach every member again, and let it run."""
        for proxy in self.proxies:
            proxy.heal()
        self.send(signal.SIGCONT)
