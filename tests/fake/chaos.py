"""One random schedule: what it does next is the seed's, what must hold after each step is not."""

from __future__ import annotations

import hashlib
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from airflow_provider_ha.checkpoints.model import CheckpointPointer
from airflow_provider_ha.coordination.coordinator import Create, Delete, Op, SetData
from airflow_provider_ha.jobs.observe import create_job
from tests.fake.jobs import CONFIG, PATHS
from tests.fake.memory_store import MemoryStore
from tests.fake.processes import Process, Shared, candidate, connect, reader
from tests.support.fake import Accepted, FakeEnsemble
from tests.support.fake.schedule import Actor, Schedule


STEPS = 50
CANDIDATES = 3
READERS = 2


class Chaos:
    """A schedule of :data:`STEPS` steps.

    :ivar epochs: Epoch -> name of the process that was granted it.
    """

    def __init__(self, seed: int, work_path: Path) -> None:
        self.seed = seed
        self.ensemble = FakeEnsemble(seed=seed, tick=0.5)
        self.chance = self.ensemble.random
        maker = self.ensemble.connect(CONFIG, name="maker")
        create_job(maker, PATHS)
        maker.commit(Create(PATHS.status))
        maker.close()
        self.schedule = Schedule(self.ensemble)
        self.shared = Shared(self.ensemble, self.schedule, MemoryStore(self.ensemble.clock), work_path)
        self.processes: list[Process] = []
        self.epochs: dict[int, str] = {}
        self._epoch_of: dict[str, int] = {}
        self._current = 0
        self._checked = len(self.ensemble.history)

    def run(self) -> Counter[str]:
        """Take all steps; return what happened how often.

        :raises AssertionError: An invariant does not hold.
        """
        for number in range(CANDIDATES):
            self.start(f"candidate-{number}", candidate)
        for number in range(READERS):
            self.start(f"reader-{number}", reader)
        try:
            for _ in range(STEPS):
                self.step()
                self.check()
        finally:
            self.schedule.close()
        counts = Counter(self.shared.counts)
        counts.update(
            {f"{kind.__class__.__name__}: {kind.value}": n for kind, n in self.ensemble.faults.counts.items()}
        )
        return counts

    def start(self, name: str, life: Callable[[Process], None]) -> None:
        """Start a process, fresh: another session, another name."""
        process = Process(
            self.shared, f"{name}.{len(self.processes)}", connect(self.shared, f"{name}.{len(self.processes)}")
        )
        self.processes.append(process)
        process.actor = self.schedule.actor(process.name, lambda: life(process))

    def step(self) -> None:
        """Do one thing: let an actor go on, let time pass, or break something."""
        (
            self.go_on
            if self.chance.random() < 0.62
            else self.chance.choice((self.let_time_pass, self.break_something))
        )()
        for process in self.processes:
            actor = process.actor
            assert actor is not None
            if actor.error is not None:
                raise AssertionError(f"{actor} failed: {actor.error!r}") from actor.error
        for number in range(CANDIDATES):
            if not any(p.name.startswith(f"candidate-{number}.") and not p.ended for p in self.processes):
                self.start(f"candidate-{number}", candidate)
        for number in range(READERS):
            if not any(p.name.startswith(f"reader-{number}.") and not p.ended for p in self.processes):
                self.start(f"reader-{number}", reader)

    def go_on(self) -> None:
        ready = self.schedule.runnable()
        if not ready:
            self.let_time_pass()
            return
        actor = self.chance.choice(ready)
        self.go_on_with(actor, self.chance.choice((1, 2, 4, 8, 16, 32)))

    def go_on_with(self, actor: Actor, points: int) -> None:
        for _ in range(points):
            if actor not in self.schedule.runnable():
                return
            self.schedule.step(actor)

    def let_time_pass(self) -> None:
        self.ensemble.advance(self.chance.choice((0.05, 0.25, 0.25, 0.5, 0.5, 1.0, 3.0)))

    def break_something(self) -> None:
        live = [process for process in self.processes if not process.ended]
        process = self.chance.choice(live)
        if self.chance.random() < 0.5:  # the leader is the one worth hitting
            process = self.leader_or(process)
        self.chance.choice(
            (
                lambda: self.ensemble.drop_request(process.session),
                lambda: self.ensemble.drop_reply(process.session),
                lambda: self.ensemble.delay(self.chance.choice((0.2, 1.0, 6.0)), process.session),
                lambda: self.ensemble.disconnect(process.session, self.chance.choice((0.1, 1.0, 6.0))),
                lambda: self.ensemble.move(process.session, self.chance.randrange(3)),
                lambda: self.toggle_pause(process),
                lambda: self.toggle_pause(process),
                lambda: self.make_zombie(self.leader_or(process)),
                lambda: self.make_zombie(self.leader_or(process)),
                lambda: self.replay(process),
                lambda: self.replay(process),
                lambda: self.cut_off_before_it_writes(process),
                lambda: self.kill(process),
                lambda: self.expire(process),
                lambda: self.ensemble.lag(self.chance.choice((1, 2))),
                lambda: self.ensemble.catch_up(self.chance.choice((1, 2))),
                lambda: self.partition(process),
                lambda: self.ensemble.heal(self.chance.choice((1, 2))),
            )
        )()

    def partition(self, process: Process) -> None:
        """Cut off the follower that a process is connected to, when it is connected to one."""
        member = process.session.connection.member
        number = member.number if member is not None and member.number else self.chance.choice((1, 2))
        if all(other.reaches_leader for other in self.ensemble.members):
            self.ensemble.partition(number, with_clients=self.chance.random() < 0.5)

    def toggle_pause(self, process: Process) -> None:
        assert process.actor is not None
        process.paused = not process.paused
        process.actor.stopped = process.paused
        (self.ensemble.pause if process.paused else self.ensemble.resume)(process.session)

    def make_zombie(self, process: Process) -> None:
        """Stop a process just before it writes; let others go on until its session is over; let it write then."""
        actor = process.actor
        assert actor is not None
        self.go_on_until_it_writes(actor)
        if process.paused or actor.done:
            return
        self.toggle_pause(process)
        self.others_go_on()
        self.toggle_pause(process)
        self.ensemble.advance(0.5)
        self.go_on_with(actor, 4)

    def replay(self, process: Process) -> None:
        """Let a write be sent under one session and applied under the next one."""
        actor = process.actor
        assert actor is not None
        self.go_on_until_it_writes(actor)
        self.ensemble.delay(self.chance.choice((0.7, 5.0)), process.session)
        self.go_on_with(actor, 1)
        if not actor.done:
            self.ensemble.disconnect(process.session, self.chance.choice((0.1, 5.0, 5.0)))
            self.others_go_on()

    def cut_off_before_it_writes(self, process: Process) -> None:
        """Let a write wait for a connection, longer than it may."""
        actor = process.actor
        assert actor is not None
        self.go_on_until_it_writes(actor)
        self.ensemble.disconnect(process.session, 6.0)
        self.go_on_with(actor, 1)
        self.others_go_on()

    def leader_or(self, process: Process) -> Process:
        return next((other for other in self.processes if other.believes()), process)

    def go_on_until_it_writes(self, actor: Actor) -> None:
        for _ in range(20):
            if actor.request is not None and actor.request.kind == "commit":
                return
            self.go_on_with(actor, 1)

    def others_go_on(self) -> None:
        for _ in range(self.chance.choice((2, 6, 12, 12))):
            self.ensemble.advance(0.5)
            ready = self.schedule.runnable()
            if ready:
                self.go_on_with(self.chance.choice(ready), 8)
            self.check()

    def kill(self, process: Process) -> None:
        """Kill a process; half of the time its death is proven, and its session closed."""
        assert process.actor is not None
        credentials = process.session.session
        self.ensemble.kill(process.session)
        self.schedule.kill(process.actor)
        self.shared.protected.pop(process.name, None)
        if credentials is not None and self.chance.random() < 0.5:
            self.ensemble.close_session(credentials)

    def expire(self, process: Process) -> None:
        """Expire a session early, but not a leader's: ZooKeeper does not do that, and the lease rests on it."""
        if process.leadership is None and process.actor is not None and not self.contending(process):
            self.ensemble.expire(process.session)

    def contending(self, process: Process) -> bool:
        node = self.ensemble.tree.get(PATHS.leader)
        session = process.session.session
        return node is not None and session is not None and node.ephemeral_owner == session.session_id

    # What must hold after each step.

    def check(self) -> None:
        for accepted in self.ensemble.history[self._checked :]:
            for op in accepted.ops:
                self.check_write(accepted, op)
        self._checked = len(self.ensemble.history)
        believers = [process.name for process in self.processes if process.believes()]
        assert len(believers) <= 1, f"{believers} believe that they lead"
        self.check_checkpoints()
        self.check_acknowledged()
        self.check_leases()

    def check_write(self, accepted: Accepted, op: Op) -> None:
        if op.path == PATHS.epoch and isinstance(op, SetData):
            self._current += 1
            node = self.ensemble.tree.get(PATHS.epoch)
            assert node is not None
            assert node.version >= self._current, "an epoch came back"
        elif op.path == PATHS.leader and isinstance(op, Create):
            epoch = int(op.data.split()[0])
            assert epoch == self._current, f"epoch {epoch} was granted when {self._current} was the newest"
            assert epoch not in self.epochs, f"epoch {epoch} has two owners"
            self.epochs[epoch] = accepted.client
            self._epoch_of[accepted.client] = epoch
        elif not accepted.client or (isinstance(op, Create) and op.path.startswith(f"{PATHS.base}/leases")):
            return
        elif self.is_leaders(op):
            epoch = self._epoch_of.get(accepted.client, 0)
            assert epoch == self._current, f"{accepted.client} wrote {op.path} with epoch {epoch} after {self._current}"

    def is_leaders(self, op: Op) -> bool:
        """Whether only the leader may do this."""
        writes = isinstance(op, (SetData, Delete)) or (isinstance(op, Create) and op.path != PATHS.heartbeat)
        own = (PATHS.status, PATHS.heartbeat, PATHS.leader, PATHS.checkpoint_id_counter)
        return writes and (op.path in own or op.path.startswith(f"{PATHS.checkpoints}/"))

    def check_checkpoints(self) -> None:
        tree = self.ensemble.tree
        for name in tree.children(PATHS.checkpoints) or []:
            node = tree.get(f"{PATHS.checkpoints}/{name}")
            assert node is not None
            pointer = CheckpointPointer.from_bytes(node.data, source=node.path)
            payload = self.shared.store.objects.get(pointer.payload)
            assert payload is not None, f"checkpoint {pointer.number} has no payload"
            assert hashlib.sha256(payload[0]).hexdigest() == pointer.sha256
            assert self.pin_of(pointer).is_dir(), f"checkpoint {pointer.number} has no pin"

    def check_acknowledged(self) -> None:
        tree, number = self.ensemble.tree, self.shared.acknowledged_checkpoint
        status, counter = tree.get(PATHS.status), tree.get(PATHS.checkpoint_id_counter)
        if status is not None and status.data:
            epoch, written = map(int, status.data.split())
            assert (epoch, written) >= self.shared.acknowledged_status, "an acknowledged status was lost"
        if number:
            names = tree.children(PATHS.checkpoints) or ["0"]
            assert int(names[-1]) >= number, f"acknowledged checkpoint {number} was lost"
            assert counter is not None
            assert int(counter.data) >= int(names[-1]), "a number will repeat"

    def check_leases(self) -> None:
        for name, protected in self.shared.protected.items():
            if protected.until > self.ensemble.clock.now():
                number = protected.pointer.number
                assert self.pin_of(protected.pointer).is_dir(), f"{name} reads pin {number}, and it is gone"
                assert protected.pointer.payload in self.shared.store.objects, f"{name} reads payload {number}"

    def pin_of(self, pointer: CheckpointPointer) -> Path:
        from tests.fake.processes import KEYS

        return self.shared.work_path / KEYS.pin(pointer.number, pointer.epoch)


@contextmanager
def seeded_ids(chance_bits: Callable[[int], int]) -> Iterator[None]:
    """Let new ids come from the seed: a replay then has the same names, and so the same order of reads."""
    with mock.patch.object(uuid, "uuid4", side_effect=lambda: uuid.UUID(int=chance_bits(128), version=4)):
        yield


def play(seed: int, work_path: Path) -> tuple[Counter[str], list[tuple[int, str, tuple[str, ...]]]]:
    """Run the schedule of a seed; return its counts, and every accepted transaction."""
    chaos = Chaos(seed, work_path)
    with seeded_ids(chaos.chance.getrandbits):
        counts = chaos.run()
    return counts, [(a.zxid, a.client, tuple(op.path for op in a.ops)) for a in chaos.ensemble.history]
