"""Causes faults by chance, the same ones for the same seed, and takes note of each."""

from __future__ import annotations

import contextlib
import random
import signal
from collections.abc import Callable

from airflow_provider_ha.errors import CoordinationError
from airflow_provider_ha.jobs.model import LeaderInfo
from lab.soak.contenders import Contender
from tests.support.ensemble.servers import EmbeddedEnsemble, Member
from tests.support.leadership.history import History


class Nemesis:
    """Chooses faults and undoes them.

    :param find_leader: Returns what the leader node says; ``None`` when no process leads.
    """

    def __init__(
        self,
        seed: int,
        ensemble: EmbeddedEnsemble,
        contenders: list[Contender],
        history: History,
        find_leader: Callable[[], LeaderInfo | None],
    ) -> None:
        self.random = random.Random(seed)
        self._ensemble = ensemble
        self._contenders = contenders
        self._history = history
        self._find_leader = find_leader
        self._faults: dict[str, Callable[[], None]] = {
            "kill the leader": self._kill_leader,
            "kill the leader, with proof of death": self._kill_leader_with_proof,
            "kill any": lambda: self._any().kill(self._history),
            "freeze the leader": lambda: self._leader().send(signal.SIGSTOP),
            "freeze any": lambda: self._any().send(signal.SIGSTOP),
            "cut the leader off": lambda: self._each_proxy("cut"),
            "swallow all of the leader's bytes": lambda: self._each_proxy("black_hole"),
            "swallow the answers to the leader": lambda: self._each_proxy("drop_replies"),
            "let the leader's connections die in silence": lambda: self._each_proxy("stall"),
            "kill a member": lambda: self._member().kill(),
            "kill the leading member": lambda: self._leading_member().kill(),
            "freeze a member": lambda: self._member().freeze(),
            "freeze the leading member": lambda: self._leading_member().freeze(),
            "isolate a member": lambda: ensemble.isolate(self._member()),
            "isolate the leading member": lambda: ensemble.isolate(self._leading_member()),
            "restart the whole ensemble": self._restart_all,
        }
        self._names = list(self._faults)

    def strike(self) -> None:
        """Cause one fault, seldom two or three at once. Every kind has its turn before one comes again."""
        for _ in range(self.random.choice((1, 1, 1, 2, 3))):
            if not self._names:
                self._names = list(self._faults)
            name = self._names.pop(self.random.randrange(len(self._names)))
            self._history.note("fault", name=name)
            self._faults[name]()

    def heal(self) -> None:
        """Undo everything; returns when every member serves clients and every place has a process with a session."""
        for contender in self._contenders:
            contender.heal()
        self._ensemble.heal()
        for member in self._ensemble.members:
            member.thaw()
        self._ensemble.start()
        for contender in self._contenders:
            contender.revive(self._history)
        for contender in self._contenders:
            contender.await_connected()

    def _kill_leader(self) -> None:
        self._leader().kill(self._history)

    def _kill_leader_with_proof(self) -> None:
        leader = self._leader()
        leader.kill(self._history)
        with contextlib.suppress(AssertionError):  # it had not come to its session yet
            leader.close_session()

    def _each_proxy(self, fault: str) -> None:
        for proxy in self._leader().proxies:
            getattr(proxy, fault)()

    def _restart_all(self) -> None:
        for member in self._ensemble.members:
            member.kill()

    def _leader(self) -> Contender:
        info = None
        with contextlib.suppress(CoordinationError):  # then any process will do
            info = self._find_leader()
        found = [contender for contender in self._contenders if info is not None and contender.pid == info.pid]
        return found[0] if found else self._any()

    def _any(self) -> Contender:
        return self.random.choice(self._contenders)

    def _member(self) -> Member:
        return self.random.choice(self._ensemble.members)

    def _leading_member(self) -> Member:
        leading = [member for member in self._ensemble.members if member.mode == "leader"]
        return leading[0] if leading else self._member()
