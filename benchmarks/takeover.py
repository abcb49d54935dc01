"""How long a job is without a leader after kill -9: with proof of death, and without.

With proof: the leader's process is killed and waited for, its session closed from outside, and a candidate that waits
for the lock gets it. The baseline does the same with kazoo alone: close the session, see an ephemeral node go, create
it. Without proof the candidate waits for the session to time out; the baseline is T + one tick.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, cast

from kazoo.client import KazooClient  # noqa: TID253  # the baseline is kazoo itself

from airflow_provider_ha.clock import SystemClock, new_id
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.coordinator import SessionCredentials
from airflow_provider_ha.coordination.election import acquire
from airflow_provider_ha.coordination.embedded import EmbeddedZooKeeper
from airflow_provider_ha.coordination.paths import ClusterPaths, JobPaths
from airflow_provider_ha.coordination.raw_socket import close_session
from airflow_provider_ha.timings import Timings
from benchmarks.shared import effort, median, p99, show


LEADER = Path(__file__).parents[1] / "tests" / "fault" / "leader_process.py"
JOB = "flights"  # the one that the leader process leads
TICK_MS = 200
T = Timings(session_timeout=3.0, heartbeat_interval=0.3, heartbeat_timeout=0.5, connect_timeout=0.5, margin=0.2)
AT_A_TIME = 5


class Victim:
    """A leader in a separate process and cluster."""

    def __init__(self, config: HaConfig) -> None:
        self.config = config.model_copy(update={"cluster_id": f"c-{new_id()[:12]}"})
        root = str(LEADER.parents[2])
        self.process = subprocess.Popen(
            [sys.executable, str(LEADER), self.config.to_private_json()],
            stdout=subprocess.PIPE,
            text=True,
            cwd=root,
            env={"PYTHONPATH": root},
        )
        self._words = cast("IO[str]", self.process.stdout)  # it is a pipe

    @property
    def paths(self) -> JobPaths:
        """The job that it leads."""
        return ClusterPaths(self.config.root, self.config.cluster_id).job(JOB)

    def credentials(self) -> SessionCredentials:
        """Wait until it leads; returns its session."""
        facts = json.loads(self._words.readline())
        return SessionCredentials(facts["session"], bytes.fromhex(facts["password"]))

    def kill(self) -> None:
        """Kill it, and wait for the proof."""
        self.process.kill()
        self.process.wait()
        self._words.close()


class Candidate:
    """Waits for the lock of a victim, and counts what it asks the server for."""

    def __init__(self, victim: Victim) -> None:
        self.requests: Counter[str] = Counter()
        self.granted_at = 0.0
        self._paths = victim.paths
        self._coordinator = KazooCoordinator.connect(victim.config)
        self._count_requests(self._coordinator._client)  # noqa: SLF001  # to count what goes over the wire
        self._thread = threading.Thread(target=self._wait)
        self._thread.start()

    def taken(self) -> float:
        """Wait for the grant; returns when it came."""
        self._thread.join()
        self._coordinator.close()
        return self.granted_at

    def _wait(self) -> None:
        clock = SystemClock()
        leadership = acquire(
            self._coordinator, self._paths, timings=T, clock=clock, describe=lambda _: b"", timeout=60.0
        )
        self.granted_at = time.perf_counter()
        leadership.release()

    def _count_requests(self, client: Any) -> None:
        call = client._call  # noqa: SLF001  # as above

        def counted(request: Any, answer: Any) -> Any:
            self.requests[type(request).__name__] += 1
            return call(request, answer)

        client._call = counted  # noqa: SLF001  # as above


def with_proof(config: HaConfig) -> tuple[float, int]:
    """Return the seconds from the kill to the grant, and the candidate's requests."""
    victim = Victim(config)
    credentials = victim.credentials()
    candidate = Candidate(victim)
    time.sleep(T.heartbeat_interval * 1.5)  # it has looked, and waits
    before = candidate.requests.total()
    begin = time.perf_counter()
    victim.kill()
    close_session(victim.config, credentials)
    taken = candidate.taken() - begin
    return taken, candidate.requests.total() - before - 1  # the last one gives the lock back


def by_kazoo_alone(config: HaConfig) -> float:
    """Return the seconds from the kill of a process to the creation of its node by another session."""
    path, gone = f"/raw-{new_id()}", threading.Event()
    victim = Victim(config)
    process = victim.credentials()
    owner, rival = KazooClient(config.zookeeper), KazooClient(config.zookeeper)
    owner.start()
    rival.start()
    owner.create(path, ephemeral=True)
    session, password = owner.client_id
    rival.exists(path, watch=lambda _: gone.set())
    begin = time.perf_counter()
    victim.kill()
    close_session(config, SessionCredentials(session, password))
    gone.wait()
    rival.create(path, ephemeral=True)
    taken = time.perf_counter() - begin
    close_session(config, process)
    for client in (owner, rival):
        client.stop()
        client.close()
    return taken


def without_proof(config: HaConfig) -> float:
    """Return the seconds from the kill to the grant."""
    victim = Victim(config)
    victim.credentials()
    candidate = Candidate(victim)
    time.sleep(T.heartbeat_interval * 1.5)
    begin = time.perf_counter()
    victim.kill()
    return candidate.taken() - begin


def many(measure: Callable[[HaConfig], float], config: HaConfig, rounds: int) -> list[float]:
    """Measure several at a time: they mostly wait."""
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        return list(pool.map(lambda _: measure(config), range(rounds)))


def main() -> None:
    """Measure and print."""
    given = effort(__doc__, pairs=100, few=3)
    logging.disable(logging.WARNING)  # connections that break are what this is about
    rounds, waits = given.pairs, 2 if given.quick else 20
    with tempfile.TemporaryDirectory() as folder, EmbeddedZooKeeper(Path(folder) / "zk", tick_ms=TICK_MS) as server:
        config = HaConfig.build(zookeeper=server.hosts, storage_root=f"file://{folder}/storage", timings=T)
        pairs = [(with_proof(config), by_kazoo_alone(config)) for _ in range(rounds)]
        waited = many(without_proof, config, waits)
    proven = [seconds * 1e3 for (seconds, _), _ in pairs]
    raw = [seconds * 1e3 for _, seconds in pairs]
    requests = median([count for (_, count), _ in pairs])
    bound = T.session_timeout + TICK_MS / 1000
    show(
        f"kill -9 of a leader: {rounds} alternating pairs with proof of death, {waits} without (T = 3 s, tick = 0.2 s)",
        ("from the kill to the grant", "median", "p99", "round trips", "ratio"),
        [
            ("kazoo alone: close, watch, create", f"{median(raw):.1f} ms", f"{p99(raw):.1f} ms", "1", "1.00"),
            (
                "ours, with proof of death",
                f"{median(proven):.1f} ms",
                f"{p99(proven):.1f} ms",
                f"{requests:.0f}",
                f"{median(proven) / median(raw):.2f}",
            ),
            ("T + one tick", f"{bound:.2f} s", "", "", "1.00"),
            (
                "ours, without proof",
                f"{median(waited):.2f} s",
                f"{p99(waited):.2f} s",
                "",
                f"{median(waited) / bound:.2f}",
            ),
        ],
    )


if __name__ == "__main__":
    main()
