"""Launch of standby drivers on a cluster that queues them, and places them at random: real code, fake ensemble."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timezone

import pytest

from airflow_provider_ha.errors import EngineUnavailableError
from airflow_provider_ha.host.engines.engine import GoneSubmission, Observation, PendingSubmission, RunningSubmission
from airflow_provider_ha.jobs.drivers.driver_home import Ticket
from airflow_provider_ha.jobs.runs.standbys import Standby, StandbyLevel, StandbyStore
from airflow_provider_ha.jobs.runs.submissions import DriverHandle
from airflow_provider_ha.jobs.submit.launch import end_drivers
from airflow_provider_ha.jobs.submit.standby_launch import LAUNCHES, launch_standbys
from tests.engine_helpers import NothingToSee, handle
from tests.fake.jobs import PATHS, World, prepare


QUEUED = "no worker has room for it yet"
SINCE = datetime(2026, 1, 1, tzinfo=timezone.utc)


@dataclass
class QueueEngine(NothingToSee):
    """A cluster that starts a driver when it has room.

    :param hosts: Host of each launch, in order; afterwards the last one. The leader runs on ``a``.
    """

    name: str = "local"
    hosts: list[str] = field(default_factory=lambda: ["b"])
    has_room: bool = True
    answers: bool = True
    launched: dict[str, str] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)

    def launch(self, ticket: Ticket, reserved: DriverHandle | None) -> DriverHandle:
        host = self.hosts[min(len(self.launched), len(self.hosts) - 1)]
        self.launched[ticket.submission_id] = host
        return handle().model_copy(update={"ref": {"id": ticket.submission_id}})

    def seen(self, submission_id: str, known: DriverHandle | None) -> Observation:
        if submission_id in self.ended:
            return GoneSubmission("it was ended")
        assert known is not None
        host = self.launched.get(submission_id, "a")
        return RunningSubmission(known, host=host) if self.has_room else PendingSubmission(QUEUED)

    def terminate(self, handle: DriverHandle) -> None:
        if not self.answers:
            raise EngineUnavailableError("no master answers")
        self.ended.append(str(handle.ref.get("id")))


@pytest.fixture
def engine() -> QueueEngine:
    return QueueEngine()


@pytest.fixture
def world(engine: QueueEngine) -> World:
    """Run 1 is led, and requests a standby driver."""
    world = prepare(led=True, standby_drivers=1).world()
    world.engine = engine  # type: ignore[assignment]  # another one than that of most tests
    return world


def launch(world: World, engine: QueueEngine) -> int:
    job = world.job(world.session("launcher"))
    return launch_standbys(job, job.runs.get(1).run, engine)


def standbys(world: World) -> StandbyStore:
    return StandbyStore(world.session("reader"), PATHS, 1)


def process(standby_id: str) -> Standby:
    return Standby(standby_id=standby_id, level=StandbyLevel.CONNECTED, since=SINCE, host="b", pid=7)


def test_a_standby_driver_with_a_process_has_no_record_until_it_joins(world: World, engine: QueueEngine) -> None:
    assert launch(world, engine) == 1

    assert standbys(world).living() == ()


def test_one_that_waits_in_the_queue_is_shown_with_the_reason(world: World, engine: QueueEngine) -> None:
    engine.has_room = False

    launch(world, engine)

    (waits,) = standbys(world).living()
    assert (waits.level, waits.note, waits.is_ready) == (StandbyLevel.REQUESTED, QUEUED, False)


def test_a_request_that_waits_is_not_repeated(world: World, engine: QueueEngine) -> None:
    engine.has_room = False

    assert [launch(world, engine) for _ in range(3)] == [1, 0, 0]
    assert len(engine.launched) == 1


def test_a_request_that_has_left_the_queue_without_joining_is_replaced(world: World, engine: QueueEngine) -> None:
    engine.has_room = False
    launch(world, engine)
    (lost,) = standbys(world).living()
    engine.ended.append(lost.standby_id)

    assert launch(world, engine) == 1
    (waits,) = standbys(world).living()
    assert waits.standby_id != lost.standby_id


def test_the_process_takes_the_place_that_it_had_in_the_queue(world: World, engine: QueueEngine) -> None:
    engine.has_room = False
    launch(world, engine)
    (waits,) = standbys(world).living()
    session = world.session("standby")
    own = process(waits.standby_id)

    assert StandbyStore(session, PATHS, 1).join(own, 1)
    assert standbys(world).living() == (own,)
    session.close()
    assert standbys(world).living() == (), "its record ends with its process"


def test_a_request_in_the_queue_counts_as_one_of_the_standby_drivers(world: World, engine: QueueEngine) -> None:
    engine.has_room = False
    launch(world, engine)

    assert not StandbyStore(world.session("another"), PATHS, 1).join(process("another"), 1)


def test_the_record_of_a_process_is_not_dropped_for_that_of_its_request(world: World, engine: QueueEngine) -> None:
    engine.has_room = False
    launch(world, engine)
    (waits,) = standbys(world).living()
    session = world.session("standby")
    StandbyStore(session, PATHS, 1).join(process(waits.standby_id), 1)

    standbys(world).drop(waits)

    assert standbys(world).ids() == [waits.standby_id]


def test_it_is_placed_apart_from_the_leader(world: World, engine: QueueEngine) -> None:
    engine.hosts = ["a", "b"]

    launch(world, engine)

    assert list(engine.launched.values()) == ["a", "b"]
    assert [engine.launched[each] for each in engine.ended] == ["a"]


def test_a_cluster_with_one_host_has_both(world: World, engine: QueueEngine) -> None:
    engine.hosts = ["a"]

    assert launch(world, engine) == 1
    assert (len(engine.launched), len(engine.ended)) == (LAUNCHES, LAUNCHES - 1)


def test_two_standby_drivers_are_placed_apart_from_each_other(engine: QueueEngine) -> None:
    world = prepare(led=True, standby_drivers=2).world()
    engine.hosts = ["b", "b", "c"]

    assert launch(world, engine) == 2
    assert [host for each, host in engine.launched.items() if each not in engine.ended] == ["b", "c"]


def test_the_end_of_a_run_ends_what_waits_in_the_queue(world: World, engine: QueueEngine) -> None:
    engine.has_room = False
    launch(world, engine)
    (waits,) = standbys(world).living()

    end_drivers(world.job(world.session("ending")), 1)

    assert waits.standby_id in engine.ended
    assert standbys(world).living() == ()


def test_what_waits_in_a_queue_that_does_not_answer_stays_on_record(world: World, engine: QueueEngine) -> None:
    engine.has_room = False
    launch(world, engine)
    engine.answers = False

    end_drivers(world.job(world.session("ending")), 1)

    assert len(standbys(world).living()) == 1
