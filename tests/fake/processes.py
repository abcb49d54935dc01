"""The processes of the random schedules: candidates that become leaders, and readers. All of it is real code."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from airflow_provider_ha.checkpoints.areas.linked_work_area import LinkedWorkArea
from airflow_provider_ha.checkpoints.model import (
    Checkpoint,
    CheckpointKind,
    CheckpointPointer,
    QueryCut,
    QuerySink,
    SinkKind,
)
from airflow_provider_ha.checkpoints.store.checkpoint_store import CheckpointStore
from airflow_provider_ha.coordination.coordinator import SessionState, SetData
from airflow_provider_ha.coordination.election import acquire
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.coordination.reader_leases import hold
from airflow_provider_ha.errors import (
    CheckpointError,
    CheckpointMissingError,
    CoordinationError,
    FencedError,
    LeadershipError,
    LeadershipUnavailableError,
    NotConnectedError,
    ObjectMissingError,
    OutcomeUnknownError,
)
from airflow_provider_ha.storage.keys import JobKeys
from tests.fake.jobs import CONFIG, PATHS, TIMINGS
from tests.fake.memory_store import MemoryStore
from tests.support.fake import FakeCoordinator, FakeEnsemble
from tests.support.fake.schedule import Actor, Schedule


KEYS = JobKeys("flights")
KEEP = 1


@dataclass(frozen=True)
class Protected:
    """What a reader has leased and seen the pointer of."""

    pointer: CheckpointPointer
    until: datetime


@dataclass
class Shared:
    """What all processes of one schedule use, and what the checks are made on."""

    ensemble: FakeEnsemble
    schedule: Schedule
    store: MemoryStore
    work_path: Path
    counts: Counter[str] = field(default_factory=Counter)
    acknowledged_status: tuple[int, int] = (0, 0)
    acknowledged_checkpoint: int = 0
    protected: dict[str, Protected] = field(default_factory=dict)

    @property
    def chance(self) -> random.Random:
        return self.ensemble.random

    def sleep(self, seconds: float) -> None:
        self.ensemble.sleep(seconds)


@dataclass
class Process:
    """One operating-system process: an actor with its own session."""

    shared: Shared
    name: str
    session: FakeCoordinator
    leadership: Leadership | None = None
    actor: Actor | None = None
    paused: bool = False

    @property
    def ended(self) -> bool:
        return self.actor is not None and self.actor.done

    def believes(self) -> bool:
        """Whether it may act as the leader, as far as it knows."""
        return self.leadership is not None and not self.ended and self.leadership.lease_left() > 0

    def checkpoints(self) -> CheckpointStore:
        shared = self.shared
        return CheckpointStore(
            self.session, shared.store, PATHS, KEYS, LinkedWorkArea(shared.work_path), clock=shared.ensemble.clock
        )


def candidate(process: Process) -> None:
    """Contend, lead until the leadership ends, exit: a process leads once."""
    shared, ensemble = process.shared, process.shared.ensemble
    shared.sleep(shared.chance.choice((0, 0, 0.3, 2.0)))
    process.leadership = leadership = contend(process)
    shared.counts["granted"] += 1
    checkpoints, written = process.checkpoints(), 0
    while not leadership.lost.is_set():
        doubt = leadership._own_doubt()  # as its heartbeats do, in their thread
        if doubt:
            leadership._lose(doubt)
            shared.counts["lease or session over"] += 1
            break
        if process.session.state is SessionState.CONNECTED:
            leadership._beat()
        if leadership.lost.is_set():
            shared.counts["fenced"] += 1
            break
        try:
            written = act(process, leadership, checkpoints, written)
        except FencedError:
            shared.counts["fenced"] += 1
            break
        except LeadershipError:
            shared.counts["nothing sent without a lease"] += 1
        except (NotConnectedError, OutcomeUnknownError):
            shared.counts["no answer to a leader"] += 1
        if shared.chance.random() < 0.05:
            leave(process, leadership)
            break
        ensemble.sleep(TIMINGS.heartbeat_interval)
    process.session.close()


def contend(process: Process) -> Leadership:
    clock = process.shared.ensemble.clock
    while True:
        try:
            return acquire(
                process.session,
                PATHS,
                timings=TIMINGS,
                clock=clock,
                describe=lambda epoch: f"{epoch} {process.name}".encode(),
                timeout=0,
            )
        except (LeadershipUnavailableError, NotConnectedError, OutcomeUnknownError) as error:
            process.shared.counts[f"not granted: {type(error).__name__}"] += 1
        process.shared.sleep(TIMINGS.heartbeat_interval)


def act(process: Process, leadership: Leadership, checkpoints: CheckpointStore, written: int) -> int:
    shared = process.shared
    match shared.chance.choice(("status", "status", "checkpoint", "checkpoint", "retain", "nothing")):
        case "status":
            leadership.commit(SetData(PATHS.status, f"{leadership.epoch} {written + 1}".encode()))
            shared.acknowledged_status = max(shared.acknowledged_status, (leadership.epoch, written + 1))
            return written + 1
        case "checkpoint":
            take_checkpoint(shared, leadership, checkpoints)
        case "retain":
            shared.counts["checkpoint subsumed"] += len(checkpoints.retain(leadership, KEEP))
        case _:
            pass
    return written


def take_checkpoint(shared: Shared, leadership: Leadership, checkpoints: CheckpointStore) -> None:
    number = checkpoints.next_number()
    pin = KEYS.pin(number, leadership.epoch)
    checkpoint = Checkpoint(
        job_id="flights",
        number=number,
        run=1,
        epoch=leadership.epoch,
        reason=CheckpointKind.PERIODIC,
        created_at=shared.ensemble.clock.now(),
        queries={"flights": QueryCut(batch=number, sink=QuerySink(kind=SinkKind.OTHER))},
        directory="live",
        pin=pin,
        graph="0" * 64,
        spark_version="4.2.0",
    )
    (shared.work_path / pin / "flights").mkdir(parents=True, exist_ok=True)
    try:
        checkpoints.add(leadership, checkpoint)
    except CheckpointError:
        shared.counts["number taken"] += 1
        return
    shared.acknowledged_checkpoint = max(shared.acknowledged_checkpoint, number)
    shared.counts["checkpoint added"] += 1
    if shared.chance.random() < 0.4:
        shared.counts["checkpoint subsumed"] += len(checkpoints.retain(leadership, KEEP))


def leave(process: Process, leadership: Leadership) -> None:
    try:
        leadership.release()
        process.shared.counts["released"] += 1
    except (NotConnectedError, OutcomeUnknownError):
        process.shared.counts["release without an answer"] += 1


def reader(process: Process) -> None:
    """Restore again and again: take a lease, then read the pointer, then read what it names."""
    shared, checkpoints = process.shared, process.checkpoints()
    while True:
        try:
            read_one(process, checkpoints)
        except CheckpointMissingError:
            shared.counts["reader found no pointer"] += 1
        except CoordinationError:
            shared.counts["no answer to a reader"] += 1
        shared.sleep(0.3)


def read_one(process: Process, checkpoints: CheckpointStore) -> None:
    shared, clock = process.shared, process.shared.ensemble.clock
    pointers = checkpoints.list().pointers
    if not pointers:
        return
    number = shared.chance.choice(pointers).number
    seconds = shared.chance.choice((1.0, 3.0, 8.0))
    lease = hold(process.session, PATHS, f"checkpoint-{number}", holder=process.name, seconds=seconds, clock=clock)
    try:
        shared.protected[process.name] = Protected(checkpoints.pointer(number), lease.record.expires_at)
        shared.counts["lease"] += 1
        shared.sleep(shared.chance.choice((0.2, 1.0, 4.0)))
        read_payload(process, checkpoints, number)
    finally:
        shared.protected.pop(process.name, None)
    lease.release()


def read_payload(process: Process, checkpoints: CheckpointStore, number: int) -> None:
    shared = process.shared
    protected = shared.protected[process.name]
    try:
        assert checkpoints.load(protected.pointer).number == number
        shared.counts["read under a lease"] += 1
    except ObjectMissingError:
        assert protected.until <= shared.ensemble.clock.now(), "a payload was removed under a lease"
        shared.counts["read after the lease, too late"] += 1


def connect(shared: Shared, name: str) -> FakeCoordinator:
    return shared.ensemble.connect(CONFIG, name=name)
