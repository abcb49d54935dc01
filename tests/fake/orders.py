"""Plays of grant, revoke, submit, finish, recover and stop, and every order in which their actors can go.

Two actors with up to eight points each go in all orders, at most 12,870; three actors in all orders with
at most two preemptions. A point is a request that can meet one of another actor: reads of nodes that no other actor
writes commute with everything, and after its eighth point an actor goes on to its end.
"""

from __future__ import annotations

import functools
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path

import pytest

from airflow_provider_ha.coordination.coordinator import Create, Delete
from airflow_provider_ha.driver.standby import takeover
from airflow_provider_ha.errors import JobStateError, LeadershipError
from airflow_provider_ha.jobs.drivers.driver_home import NO_ATTEMPT, Ticket
from airflow_provider_ha.jobs.drivers.driver_spec import DriverSpec
from airflow_provider_ha.jobs.model import JobState, LeaderInfo, RunResult, StartPoint
from airflow_provider_ha.jobs.operations.stop import stop
from airflow_provider_ha.jobs.recovery import transactions as concluding
from airflow_provider_ha.jobs.recovery.lost_runs import recover
from airflow_provider_ha.jobs.recovery.transactions import conclude
from airflow_provider_ha.jobs.runs.standbys import Standby, StandbyLevel, StandbyStore
from airflow_provider_ha.jobs.runs.submissions import Submission
from airflow_provider_ha.jobs.submit import run_submission
from airflow_provider_ha.jobs.submit.requests import LostRunPolicy
from airflow_provider_ha.jobs.submit.run_submission import PreparedSubmission as PreparedRun
from airflow_provider_ha.jobs.submit.run_submission import submit_run
from airflow_provider_ha.records import Record
from tests.fake.jobs import CONFIG, PATHS, Prepared, World, prepare
from tests.support.fake import FakeCoordinator
from tests.support.fake.schedule import Schedule, every_path
from tests.support.fake.turns import Request


POINTS = 8
Play = Callable[[World], Callable[[], object]]
RUNNING = prepare(led=False)
LOST = prepare(led=True)
RECOVERED = prepare(led=True, submissions=2)


_read = Record.from_bytes.__func__  # type: ignore[attr-defined]  # of the class


@functools.lru_cache(maxsize=10_000)
def _remembered(kind: type[Record], data: bytes, source: str) -> Record:
    found: Record = _read(kind, data, source=source)
    return found


def remembered(kind: type[Record], data: bytes, *, source: str) -> Record:
    """Read equal bytes once: records are values, and most of the time would go into reading the same ones again."""
    return _remembered(kind, data, source)


@contextmanager
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A contender that finds the lock taken says so at once: its wait is in real time."""
    monkeypatch.setattr(concluding, "LOCK_SECONDS", 0.0)
    monkeypatch.setattr(takeover, "EXIT_SECONDS", 0.0)
    once = getattr(takeover, "acquire")  # noqa: B009  # it is not exported
    monkeypatch.setattr(takeover, "acquire", lambda *values, **named: once(*values, **{**named, "timeout": 0}))
    monkeypatch.setattr(run_submission, "create_job", lambda *_: None)  # forty reads that find everything there
    monkeypatch.setattr(Record, "from_bytes", classmethod(remembered))
    logging.disable(logging.CRITICAL)  # to format the same lines ten thousand times takes half of the time
    yield
    logging.disable(logging.NOTSET)


class Meetings:
    """Says which requests are points: those that meet a request of another actor on a node that one of them writes.

    All others commute with everything, so to change places with them changes nothing. What every actor reads and writes
    is learnt while schedules are explored; what was learnt counts from the next :meth:`freeze` on.
    """

    def __init__(self) -> None:
        self.learnt = True
        self._read: dict[str, set[str]] = {}
        self._written: dict[str, set[str]] = {}
        self._written_by_others: dict[str, set[str]] = {}
        self._met_by_others: dict[str, set[str]] = {}

    def freeze(self) -> None:
        """Let what was learnt count."""
        self.learnt = False
        for client in {*self._read, *self._written}:
            written = set().union(*(paths for other, paths in self._written.items() if other != client))
            read = set().union(*(paths for other, paths in self._read.items() if other != client))
            self._written_by_others[client] = written
            self._met_by_others[client] = written | read

    def __call__(self, request: Request) -> bool:
        self._note(self._read, request.client, request.paths)
        self._note(self._written, request.client, request.writes)
        return (
            request.kind == "close"
            or not self._written_by_others.get(request.client, _NOTHING).isdisjoint(request.paths)
            or not self._met_by_others.get(request.client, _NOTHING).isdisjoint(request.writes)
        )

    def note_endings(self, world: World) -> None:
        """Note what the ends of sessions have removed."""
        for accepted in world.ensemble.history:
            if not accepted.client:
                self._note(self._written, "", tuple(op.path for op in accepted.ops))

    def _note(self, known: dict[str, set[str]], client: str, paths: tuple[str, ...]) -> None:
        mine = known.setdefault(client, set())
        if not mine.issuperset(paths):
            mine.update(paths)
            self.learnt = True


_NOTHING: set[str] = set()


# The plays: what one actor does. Each is made when its world is ready, so what happens outside of it is no point.


def leading(world: World, *, attempt: int = 1) -> tuple[FakeCoordinator, Callable[[], object]]:
    """Let a driver lead; return its session, and what makes it finish."""
    session = world.session(f"driver-{attempt}")
    job = world.job(session)
    leadership = world.lead(job, run=1, attempt=attempt)

    def finish() -> None:
        leadership.prove()
        world.finish(job, leadership, run=1)
        leadership.release()
        session.close()

    return session, finish


def driver(attempt: int) -> Play:
    """Be granted the job, finish its run, and leave."""

    def play(world: World) -> Callable[[], object]:
        session = world.session(f"driver-{attempt}")
        job = world.job(session)

        def run() -> None:
            leadership = world.lead(job, run=1, attempt=attempt)
            world.finish(job, leadership, run=1)
            leadership.release()
            session.close()

        return run

    return play


def recovering(name: str) -> Play:
    """Be the operator that recovers the job."""

    def play(world: World) -> Callable[[], object]:
        job = world.job(world.session(name))
        return lambda: recover(job, by=name, wait=False)

    return play


def promoting(name: str, *, joins: bool = True, is_ready: bool = False) -> Play:
    """Be a standby driver that is promoted, finishes the run, and leaves.

    :param joins: Whether it has a node; otherwise its session has ended.
    :param is_ready: Whether it is ready; to one that is not, others leave no first turn.
    """

    def play(world: World) -> Callable[[], object]:
        session = world.session(name)
        job = world.job(session)
        run = job.runs.get(1).run
        ticket = Ticket(job_id="flights", run=1, attempt=NO_ATTEMPT, submission_id=name, graph=run.graph)
        spec = DriverSpec(config=CONFIG, ticket=ticket, directory=Path("/nowhere"))
        if joins:
            level = StandbyLevel.SESSION if is_ready else StandbyLevel.CONNECTED
            assert StandbyStore(session, PATHS, 1).join(a_standby(name).model_copy(update={"level": level}), 2)
        standby = takeover.Takeover(job, spec, run, job.graph_of(run))
        standby.is_ready = is_ready

        def take_over() -> None:
            found = standby.look()
            if isinstance(found, float):
                raise JobStateError("the takeover is not due, or another process was faster")
            world.leaderships.append(found[1].leadership)
            world.finish(job, found[1].leadership, run=1)
            found[1].leadership.release()
            session.close()

        return take_over

    return play


def a_standby(name: str) -> Standby:
    """Return the record of a standby driver that is ready."""
    since = datetime(2026, 1, 1, tzinfo=timezone.utc)
    return Standby(standby_id=name, level=StandbyLevel.SESSION, since=since, host="host", pid=1)


def canceling(world: World) -> Callable[[], object]:
    """End the run without a driver."""
    job = world.job(world.session("canceling"))
    return lambda: conclude(job, JobState.CANCELED, reason="asked", by="test")


def stopping(name: str) -> Play:
    """Stop the job, with a driver or without."""

    def play(world: World) -> Callable[[], object]:
        job = world.job(world.session(name))
        return lambda: stop(job, operation_id=name, requested_by=name, mode="suspend", savepoint=False)

    return play


def submitting(name: str, graph: Prepared, if_lost: LostRunPolicy | None = None) -> Play:
    """Submit the job again, as another request."""

    def play(world: World) -> Callable[[], object]:
        job = world.job(world.session(name))
        on_lost = None if if_lost is None else lambda _: if_lost
        prepared = PreparedRun(graph=graph.graph, start=StartPoint())
        return lambda: submit_run(job, name, lambda: prepared, on_lost=on_lost)

    return play


def revoking(world: World, leader: FakeCoordinator) -> Callable[[], None]:
    """End a leader's session while it lives, as its expiry does; it connects again, under another session."""
    rival = world.session("rival")

    def revoke() -> None:
        rival.find(PATHS.leader)  # the point at which it happens
        world.ensemble.expire(leader)
        world.ensemble.advance(0.2)

    return revoke


def submit_again(world: World) -> None:
    """Make submission 2, as a process did that has seen that the first one is dead to the world."""
    attempt = Submission(
        attempt=2, submission_id="s-2", requested_by="test", engine="local", created_at=world.ensemble.clock.now()
    )
    world.ensemble.apply([Create(PATHS.submission(1, 2), attempt.to_bytes())], session_id=0, client="maker")


def after_the_end(world: World, play: Play) -> Callable[[], object]:
    """Let the run before end first, outside of all points."""
    leading(world)[1]()
    return play(world)


def explore(
    prepared: Prepared, cast: Callable[[World], dict[str, Callable[[], object]]], *, preemptions: int | None = None
) -> Counter[str]:
    """Let the cast go in every order; check each; count how the schedules ended."""
    started = time.process_time()
    meetings = Meetings()
    while meetings.learnt:  # few orders are enough to learn nearly all
        meetings.freeze()
        play_all(prepared, cast, 1, meetings)
    ends = play_all(prepared, cast, preemptions, meetings)
    while meetings.learnt:
        meetings.freeze()
        ends = play_all(prepared, cast, preemptions, meetings)
    print(f"{dict(ends)} in {time.process_time() - started:.1f} s of CPU")
    return ends


def play_all(
    prepared: Prepared,
    cast: Callable[[World], dict[str, Callable[[], object]]],
    preemptions: int | None,
    meetings: Meetings,
) -> Counter[str]:
    ends: Counter[str] = Counter()
    for path in every_path(preemptions=preemptions):
        world = prepared.world()
        plays = cast(world)
        world.ensemble.history.clear()
        live = live_runs(world)
        schedule = Schedule(world.ensemble, is_point=meetings, budget=POINTS)
        for name, play in plays.items():
            schedule.actor(name, play)
        schedule.run(path.choose)
        try:
            check(world, schedule, live)
        except AssertionError as error:
            raise AssertionError(f"{error} after {' '.join(path.names)}") from error
        meetings.note_endings(world)
        ends["schedules"] += 1
        ends[describe(world)] += 1
        for actor in schedule.actors:
            ends[f"{actor.name}: {type(actor.error).__name__ if actor.error else 'done'}"] += 1
            ends[f"points of {actor.name}"] = max(ends[f"points of {actor.name}"], actor.points)
    return ends


def live_runs(world: World) -> set[int]:
    tree = world.ensemble.tree
    numbers = [int(name) for name in tree.children(PATHS.runs) or []]
    return {number for number in numbers if tree.get(PATHS.run_result(number)) is None}


def describe(world: World) -> str:
    result = world.ensemble.tree.get(PATHS.run_result(1))
    state = RunResult.from_bytes(result.data, source="").state.value if result else "live"
    return f"{state}, {len(world.engine.launched)} launched"


def check(world: World, schedule: Schedule, live: set[int]) -> None:
    """Check what must hold in every order."""
    for actor in schedule.actors:
        assert actor.done, f"{actor} hangs at {actor.request}"
        assert actor.error is None or isinstance(actor.error, (LeadershipError, JobStateError)), repr(actor.error)
    epochs = [leadership.epoch for leadership in world.leaderships]
    assert len(set(epochs)) == len(epochs), f"epochs {epochs} were granted"
    assert len(set(world.engine.launched)) == len(world.engine.launched), f"{world.engine.launched} were launched"
    check_history(world, live)


def check_history(world: World, live: set[int]) -> None:
    pointer, losses = bool(live), Counter[int]()
    for accepted in world.ensemble.history:
        for op in accepted.ops:
            run = run_of(op.path)
            if op.path == PATHS.leader and isinstance(op, Create):
                leader = LeaderInfo.from_bytes(op.data, source="leader")
                assert leader.attempt == 0 or leader.run in live, f"run {leader.run} is led again"
            elif op.path == PATHS.job_graph:
                pointer = not isinstance(op, Delete)
            elif run and isinstance(op, Create) and op.path == PATHS.run(run):
                live.add(run)
            elif run and isinstance(op, Create) and op.path == PATHS.run_result(run):
                assert run in live
                live.remove(run)
            elif run and isinstance(op, Create) and op.path.startswith(f"{PATHS.submissions(run)}/"):
                assert run in live or op.path.endswith("/started"), f"run {run} is submitted after its result"
                if not op.path.endswith(("/started", "/led", "/exit")):
                    losses[Submission.from_bytes(op.data, source="submission").lost_epoch or 0] += 1
        assert len(live) <= 1, "two live runs"
        assert pointer == bool(live), f"the graph pointer is {pointer} while the live runs are {live}"
    assert all(count <= 1 for epoch, count in losses.items() if epoch), f"submissions per lost epoch: {losses}"


def run_of(path: str) -> int:
    head, _, rest = path.partition(f"{PATHS.runs}/")
    number = rest.split("/")[0]
    return int(number) if not head and number.isdecimal() else 0
