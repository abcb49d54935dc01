"""Leaders that are killed, frozen and cut off, by a nemesis, on a real ensemble: for a test and for a proof."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import psutil

from airflow_provider_ha.checkpoints.areas.linked_work_area import LinkedWorkArea
from airflow_provider_ha.checkpoints.store.checkpoint_store import CheckpointStore
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.embedded import ask
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.coordination.znode_records import read_record
from airflow_provider_ha.errors import CoordinationError, HaError
from airflow_provider_ha.jobs.model import LeaderInfo
from airflow_provider_ha.jobs.observe import create_job
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.open_storage import open_store
from airflow_provider_ha.testing.waiting import wait_until
from lab.soak.contenders import JOB, Contender
from lab.soak.nemesis import Nemesis
from tests.conftest import FAST
from tests.support.ensemble.servers import EmbeddedEnsemble
from tests.support.leadership.checker import Invariant, Violation, beliefs, check, counts
from tests.support.leadership.history import Event, History, read


CONTENDERS = 3
BLIND = (2,)  # the lease stops the others so early that the fence would have little to do
T = FAST.session_timeout
BOUND = 2 * T + 6.0  # seconds until a process leads: T to notice, an election of the ensemble, a slow machine
LONGEST_FAULT = 2 * T


class Soak:
    """The ensemble, the contenders, the nemesis, and an observer."""

    def __init__(self, folder: Path, stack: ExitStack, seed: int) -> None:
        self.histories = folder / "histories"
        self.histories.mkdir()
        self.ensemble = stack.enter_context(EmbeddedEnsemble(folder / "ensemble"))
        self.config = HaConfig.build(
            zookeeper=self.ensemble.hosts,
            storage_root=f"file://{folder}/storage",
            cluster_id=f"c-{new_id()[:12]}",
            timings=FAST,
        )
        self.coordinator = KazooCoordinator.connect(self.config)
        stack.callback(self.coordinator.close)
        self.paths = ClusterPaths(self.config.root, self.config.cluster_id).job(JOB)
        create_job(self.coordinator, self.paths)
        self.store = open_store(self.config)
        self.history = History(self.histories, "nemesis")
        stack.callback(self.history.close)
        self.contenders = [
            Contender(f"p{number}", self.config, self.ensemble, self.histories, stack, blind=number in BLIND)
            for number in range(CONTENDERS)
        ]
        self.nemesis = Nemesis(seed, self.ensemble, self.contenders, self.history, self.leader)

    def leader(self) -> LeaderInfo | None:
        found = read_record(self.coordinator, self.paths.leader, LeaderInfo)
        return found[0] if found else None

    def run(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        self.nemesis.heal()
        while time.monotonic() < end:
            self.await_leader()
            self.nemesis.strike()
            time.sleep(self.nemesis.random.uniform(0.1, LONGEST_FAULT))  # the fault lasts so long
            self.observe()
            self.nemesis.heal()
        self.await_leader()

    def await_leader(self) -> None:
        """Give them the time that they may take; whether they kept it is the checker's business."""
        self.history.note("healed", within=BOUND)
        end = time.monotonic() + BOUND + 0.5
        led = None
        while led is None and time.monotonic() < end:
            try:
                led = self.leader()
            except CoordinationError:
                continue
            time.sleep(0.05)
        time.sleep(self.nemesis.random.uniform(0.5, 2.0))  # some undisturbed checkpoints
        self.observe()

    def observe(self) -> None:
        """Read every pointer, and what it refers to."""
        checkpoints = CheckpointStore(
            self.coordinator, self.store, self.paths, JobKeys(JOB), LinkedWorkArea(self.config.work_path)
        )
        try:
            listing = checkpoints.list()
        except CoordinationError:
            return  # says nothing about what is there
        for broken in listing.unreadable:
            self.history.note("observed", number=int(broken.name), problem="its pointer cannot be read")
        for pointer in listing.pointers:
            problem = ""
            try:
                checkpoints.load(pointer)
            except HaError as error:
                problem = str(error)
            if problem and self.removed(pointer.number):
                continue  # retired between the two reads
            self.history.note("observed", number=pointer.number, problem=problem)

    def removed(self, number: int) -> bool:
        try:
            return self.coordinator.find(self.paths.checkpoint(number)) is None
        except CoordinationError:
            return True

    def disagreements(self) -> int:
        """Return how often members found that their data is not what the others have: a fault of ZooKeeper's own.

        Seen with 3.9.5: a member that was interrupted while it was being brought in line keeps what the others never
        agreed to, for example the end of a session (ZOOKEEPER-2846, ZOOKEEPER-5094).
        """
        logs = [member.data_dir / "zookeeper.log" for member in self.ensemble.members]
        return sum(log.read_bytes().count(b"First digest mismatch") for log in logs)

    def end(self) -> dict[str, list[str]]:
        """Kill what is left, and return what did not go away with it."""
        for contender in self.contenders:
            contender.kill(self.history)
        own = self.coordinator.session
        assert own is not None

        def left() -> dict[str, list[str]]:
            dump = ask(int(self.ensemble.leader().hosts.rpartition(":")[2]), b"dump").decode()
            sessions = set(re.findall(r"0x[0-9a-f]{8,}", dump)) - {f"0x{own.session_id:x}"}
            return {"sessions": sorted(sessions), "ephemerals": re.findall(r"^\t(/\S+)", dump, re.MULTILINE)}

        try:
            wait_until(lambda: not any(left().values()), timeout=3 * T, what="the end of the last session")
        except TimeoutError:
            return left()
        return {}


@dataclass(frozen=True)
class Endured:
    """What a soak did and what the checker says of it.

    :param disagreements: How often members of ZooKeeper found that their data is not what the others have.
    :param violations: What is wrong and not excused.
    :param excused: What only a fault of ZooKeeper's own explains. A lease rests on its word that a session lives for T;
        members that disagree about sessions do not keep it, and then only the fence is left. What the fence protects is
        never excused.
    """

    seconds: float
    seed: int
    history: Sequence[Event]
    disagreements: int
    violations: Sequence[Violation]
    excused: Sequence[Violation]

    @property
    def gaps(self) -> list[float]:
        """Seconds in which no process believed that it led, the shortest first."""
        led = beliefs(self.history)
        return sorted(max(0.0, after.since - before.until) for before, after in pairwise(led))

    def report(self) -> str:
        """Return how often each thing happened, and how long the job was without a leader."""
        lines = [f"soak of {self.seconds:.0f} s, seed {self.seed}"]
        lines += [f"  {count:6}  {name}" for name, count in sorted(counts(self.history).items())]
        if gaps := self.gaps:
            lines.append(f"  gaps between leaders: median {gaps[len(gaps) // 2]:.2f} s, longest {gaps[-1]:.2f} s")
        lines.append(f"  {self.disagreements:6}  disagreements of ZooKeeper's members, excusing {list(self.excused)}")
        return "\n".join(lines)


def endure(folder: Path, seconds: float, seed: int) -> Endured:
    """Run a soak in *folder*, and judge its histories; they stay there."""
    before = Resources()
    with ExitStack() as stack:
        soak = Soak(folder, stack, seed)
        try:
            soak.run(seconds)
        finally:
            left = soak.end()
        history = read(soak.histories)
    # At the time of the last event: that no process leads after the last process has died is no fault.
    history.append(Event(history[-1].at, "nemesis", "left", left | before.gained()))
    disagreements, found = soak.disagreements(), check(history)
    excused = [one for one in found if disagreements and one.invariant is Invariant.ONE_BELIEVER]
    return Endured(seconds, seed, history, disagreements, [one for one in found if one not in excused], excused)


class Resources:
    """What this process has, to be compared with what it has later."""

    def __init__(self) -> None:
        self._process = psutil.Process()
        self._threads = set(threading.enumerate())
        self._children = {child.pid for child in self._process.children(recursive=True)}
        self._files = self._process.num_fds()

    def gained(self) -> dict[str, object]:
        """Return what was not there before; threads get a moment to end."""

        def threads() -> list[str]:
            return [thread.name for thread in threading.enumerate() if thread not in self._threads]

        deadline = time.monotonic() + 10
        while threads() and time.monotonic() < deadline:
            time.sleep(0.1)
        children = [child for child in self._process.children(recursive=True) if child.pid not in self._children]
        return {
            "threads": threads(),
            "processes": [child.pid for child in children],
            "files": max(0, self._process.num_fds() - self._files),
        }
