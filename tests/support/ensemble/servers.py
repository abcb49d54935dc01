"""A real ensemble for tests: several ZooKeeper servers on the loopback that elect a leader among themselves.

What one server cannot show: a member that answers its clients and is cut off from the others. Every connection
between two members goes through a :class:`~tests.support.ensemble.links.Link`, so a member can be cut off from its
peers while its clients stay connected to it, without privileges. A member takes some 100 MB of memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from types import TracebackType

from typing_extensions import Self

from airflow_provider_ha.coordination.embedded import EmbeddedZooKeeper, ask, free_ports
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.ensemble.links import Link


__all__ = ["EmbeddedEnsemble", "Member"]


_HOST = "127.0.0.1"
_START_TIMEOUT = 60.0
_INIT_TICKS = 10
_LEADER = "leader"
_SERVING = (_LEADER, "follower")


class Member(EmbeddedZooKeeper):
    """One server of an ensemble. Made by :class:`EmbeddedEnsemble`.

    :param number: Its number, from 1.
    :param peers: Returns the lines of its configuration that name the members.
    """

    _main_class = "org.apache.zookeeper.server.quorum.QuorumPeerMain"

    def __init__(
        self,
        data_dir: Path,
        *,
        number: int,
        port: int,
        tick_ms: int,
        sync_ticks: int,
        jars: Path | None,
        peers: Callable[[], dict[str, object]],
    ) -> None:
        super().__init__(data_dir, port=port, tick_ms=tick_ms, jars=jars)
        self.number = number
        self._client_port = port
        self._sync_ticks = sync_ticks
        self._peers = peers

    @property
    def mode(self) -> str:
        """``"leader"`` or ``"follower"``; empty while it serves no client. Its own view, not that of the others."""
        found = re.search(rb"^Mode: (\w+)", ask(self._client_port, b"srvr"), re.MULTILINE)
        return found.group(1).decode() if found else ""

    def serves(self, session_id: int) -> bool:
        """Whether the client of that session is connected to this member."""
        return f"sid=0x{session_id:x},".encode() in ask(self._client_port, b"cons")

    def _settings(self) -> dict[str, object]:
        (self.data_dir / "myid").write_text(f"{self.number}\n", encoding="utf-8")
        # Members that chose a leader that is cut off wait this long for it before they vote again.
        limits: dict[str, object] = {"initLimit": _INIT_TICKS, "syncLimit": self._sync_ticks}
        return super()._settings() | limits | self._peers()


class EmbeddedEnsemble:
    """Several ZooKeeper servers as child processes; they die with the process (thread) that started them.

    :param data_dir: Where their data lies, a directory per member.
    :param size: How many members; an odd number.
    :param tick_ms: ZooKeeper's unit of time, milliseconds.
    :param sync_ticks: Ticks after which members that do not reach each other give each other up. Until then a
        follower that is cut off goes on answering its clients.
    :param jars: Directory with ZooKeeper's jars; by default those of Spark.
    """

    def __init__(
        self, data_dir: Path, *, size: int = 3, tick_ms: int = 200, sync_ticks: int = 5, jars: Path | None = None
    ) -> None:
        self._numbers = range(1, size + 1)
        ports = free_ports(3 * size)
        clients, self._quorum, self._election = (
            dict(zip(self._numbers, ports[kind::3], strict=True)) for kind in range(3)
        )
        self._quorum_links: dict[tuple[int, int], Link] = {}
        self._election_links: dict[tuple[int, int], Link] = {}
        self.members = tuple(
            Member(
                data_dir / f"member-{number}",
                number=number,
                port=clients[number],
                tick_ms=tick_ms,
                sync_ticks=sync_ticks,
                jars=jars,
                peers=lambda number=number: self._peers_of(number),  # type: ignore[misc]  # bound now, not later
            )
            for number in self._numbers
        )

    @property
    def hosts(self) -> str:
        """Connection string of all members."""
        return ",".join(member.hosts for member in self.members)

    def start(self) -> Self:
        """Start what does not run, and wait until every member serves clients.

        :raises ConfigurationError: A member cannot be started, with the reason.
        :raises TimeoutError: They did not find a leader.
        """
        if not self._quorum_links:
            self._connect()
        down = [member for member in self.members if member.pid is None]
        for member in down:
            member.launch()
        for member in down:
            member.await_ready()
        self.await_serving()
        return self

    def stop(self) -> None:
        """End every member; their data stays. Idempotent."""
        for member in self.members:
            member.kill()  # an orderly end takes seconds each, and says no more: nothing is lost by a kill
        for link in (*self._quorum_links.values(), *self._election_links.values()):
            link.close()
        self._quorum_links, self._election_links = {}, {}

    def leader(self) -> Member:
        """Return the member that leads the others.

        :raises TimeoutError: They find no leader.
        """
        return wait_until(
            lambda: next((member for member in self.members if member.mode == _LEADER), None),
            timeout=_START_TIMEOUT,
            what="a leader of the ensemble",
        )

    def followers(self) -> list[Member]:
        """Return the members that do not lead."""
        leader = self.leader()
        return [member for member in self.members if member is not leader]

    def serving(self, session_id: int) -> Member | None:
        """Return the member that the client of that session is connected to."""
        return next((member for member in self.members if member.serves(session_id)), None)

    def await_serving(self, *members: Member) -> None:
        """Wait until *members*, by default all, serve clients."""
        for member in members or self.members:
            wait_until(
                lambda member=member: member.mode in _SERVING,  # type: ignore[misc]  # bound now, not later
                timeout=_START_TIMEOUT,
                what=f"member {member.number} to serve clients",
            )

    def isolate(self, member: Member) -> None:
        """Cut a member off from the others, in silence and in both directions; its clients stay connected to it."""
        for link in self._links_of(member):
            link.silence()

    def heal(self) -> None:
        """Connect all members again."""
        for link in (*self._quorum_links.values(), *self._election_links.values()):
            link.heal()

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _connect(self) -> None:
        for pair in permutations(self._numbers, 2):
            source, target = pair
            self._quorum_links[pair] = Link(self._quorum[target])
            self._election_links[pair] = Link(
                self._election[target],
                way_back=lambda back=(target, source): self._election_links[back].port,  # type: ignore[misc]  # bound now
            )

    def _links_of(self, member: Member) -> list[Link]:
        links = (*self._quorum_links.items(), *self._election_links.items())
        return [link for pair, link in links if member.number in pair]

    def _peers_of(self, number: int) -> dict[str, object]:
        """Return the members as member *number* sees them: itself as it is, the others behind links."""
        peers: dict[str, object] = {f"server.{number}": self._address(self._quorum[number], self._election[number])}
        for pair, link in self._quorum_links.items():
            if pair[0] == number:
                peers[f"server.{pair[1]}"] = self._address(link.port, self._election_links[pair].port)
        return peers

    @staticmethod
    def _address(quorum: int, election: int) -> str:
        return f"{_HOST}:{quorum}:{election}"
