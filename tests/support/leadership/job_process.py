"""A driver without Spark: leads, recovers, writes checkpoints as fast as it is told, finishes the run when asked to.

Election, lease, admission, checkpoint store, run and graph pointer are the real ones; only what a batch computes is
left out. Everything that it does or believes is in its history (``tests.support.leadership.history``). For tests that
kill, freeze and cut it off; start it through :class:`tests.support.leadership.job_processes.JobProcess`.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from airflow_provider_ha.checkpoints.areas.linked_work_area import LinkedWorkArea
from airflow_provider_ha.checkpoints.model import Checkpoint, CheckpointKind
from airflow_provider_ha.checkpoints.store.checkpoint_store import CheckpointStore
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.election import acquire
from airflow_provider_ha.coordination.leadership import ClockReading, Leadership
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.driver.members.driver_session import check_admission
from airflow_provider_ha.errors import (
    CoordinationError,
    JobStateError,
    LeadershipError,
    NodeExistsError,
    NotConnectedError,
    OutcomeUnknownError,
)
from airflow_provider_ha.host.die_with_parent import die_with_parent
from airflow_provider_ha.jobs.drivers.driver_spec import write_session
from airflow_provider_ha.jobs.graph_store import JobGraphStore
from airflow_provider_ha.jobs.model import JobState, LeaderInfo, RunResult
from airflow_provider_ha.jobs.runs.run_store import RunStore
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.open_storage import open_store
from tests.support.clusters.jobs_helpers import id_of
from tests.support.leadership.history import History


REFUSED, LOST = 4, 3  # exit codes
RETAINED = 3


@dataclass(frozen=True, kw_only=True)
class Order:
    """What one process is told.

    :param config: Values of ``HaConfig``.
    :param folder: Where histories and session files lie.
    :param actor: Its name.
    :param attempt: The submission that it is; 0 contends without asking whether it may (the soak).
    :param pace: Seconds between two checkpoints.
    :param freeze: Whether it freezes itself when its result is made and not sent yet.
    :param blind: Whether nothing tells it, neither its clock nor its session, that it leads no longer: then only the
        fence is left of what protects the job. With *freeze*, from then on.
    """

    config: dict[str, Any]
    folder: str
    actor: str
    job_id: str
    run: int = 1
    attempt: int = 0
    pace: float = 0.05
    freeze: bool = False
    blind: bool = False


class Driver:
    """One process' life."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.clock = SystemClock()
        self.folder = Path(order.folder)
        self.history = History(self.folder, order.actor)
        self.config = HaConfig.build(**order.config)
        self.coordinator = KazooCoordinator.connect(self.config, timeout=60)
        assert self.coordinator.session is not None
        write_session(self.folder / f"{order.actor}.session", self.coordinator.session)
        self.history.note("connected", session=self.coordinator.session.session_id)
        self.paths = ClusterPaths(self.config.root, self.config.cluster_id).job(order.job_id)
        store = open_store(self.config)
        self.runs = RunStore(self.coordinator, self.paths)
        self.graphs = JobGraphStore(self.coordinator, store, self.paths)
        self.checkpoints = CheckpointStore(
            self.coordinator, store, self.paths, JobKeys(order.job_id), LinkedWorkArea(self.config.work_path)
        )
        self.finish_wanted = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: self.finish_wanted.set())

    def run(self) -> NoReturn:
        try:
            leadership = self.lead()
            number = self.recover(leadership)
            while not self.finish_wanted.is_set():
                number += 1
                self.commit(leadership, number)
                time.sleep(self.order.pace)  # a pace, not a wait
            self.finish(leadership, number)
        except LeadershipError as error:
            self.lost(str(error))
        except JobStateError as error:
            self.history.note("refused", reason=str(error))
            os._exit(REFUSED)
        os._exit(0)

    def lead(self) -> Leadership:
        leadership = acquire(
            self.coordinator,
            self.paths,
            timings=self.config.timings,
            clock=self.clock,
            describe=lambda epoch: self.leader_info(epoch).to_bytes(),
            timeout=None,
            admit=self.admit if self.order.attempt else None,
        )
        self.epoch = leadership.epoch
        session = self.coordinator.session
        self.history.note("acquired", epoch=leadership.epoch, session=session.session_id if session else 0)
        if self.order.blind and not self.order.freeze:
            self.blind(leadership)  # what it believes proves nothing, so its history does not say it
        else:
            self.note_lease(leadership)
        leadership.start_heartbeats(self.lost)
        return leadership

    def admit(self) -> None:
        view = self.runs.get(self.order.run)
        check_admission(view, self.graphs.pointer(), self.order.attempt, id_of(view, self.order.attempt))

    def note_lease(self, leadership: Leadership) -> None:
        """Write down, from the first lease on, until when this process may believe."""
        lease = leadership._lease
        acknowledge = lease.acknowledge

        def noted(sent_at: ClockReading) -> None:
            acknowledge(sent_at)
            self.history.note("lease", epoch=self.epoch, until=lease.deadline)

        lease.acknowledge = noted  # type: ignore[method-assign]
        self.history.note("lease", epoch=self.epoch, until=lease.deadline)

    def recover(self, leadership: Leadership) -> int:
        """Read the newest checkpoint, digest and all."""
        pointers = self.again(self.checkpoints.list, leadership).pointers
        number = pointers[0].number if pointers else 0
        if pointers:
            self.checkpoints.load(pointers[0])
        self.history.note("recovered", epoch=self.epoch, number=number)
        return number

    def commit(self, leadership: Leadership, number: int) -> None:
        checkpoint = self.checkpoint(number)
        self.history.note("sent", epoch=self.epoch, number=number)
        try:
            self.again(lambda: self.checkpoints.add(leadership, checkpoint), leadership)
        except LeadershipError:
            self.history.note("rejected", epoch=self.epoch, number=number)
            raise
        self.history.note("committed", epoch=self.epoch, number=number)
        self.again(lambda: self.checkpoints.retain(leadership, RETAINED), leadership)

    def finish(self, leadership: Leadership, number: int) -> None:
        """Write the result and remove the graph pointer, in one transaction, as a driver does."""
        if self.order.attempt:
            result = RunResult(state=JobState.FINISHED, epoch=self.epoch, checkpoint=number, at=self.clock.now())
            ops = self.again(lambda: [self.runs.result_op(self.order.run, result), self.removal()], leadership)
            if self.order.freeze:
                self.freeze(leadership)
            try:
                self.again(lambda: leadership.commit(*[op for op in ops if op is not None]), leadership)
            except NodeExistsError:
                if self.again(lambda: self.runs.result(self.order.run), leadership) != result:
                    raise
            self.history.note("finished", epoch=self.epoch)
        leadership.release()
        self.history.note("released", epoch=self.epoch)
        self.coordinator.close()

    def removal(self) -> Any:
        return self.graphs.remove_op(self.order.run)

    def freeze(self, leadership: Leadership) -> None:
        if self.order.blind:
            self.blind(leadership)
        self.history.note("frozen", epoch=self.epoch)
        os.kill(os.getpid(), signal.SIGSTOP)

    @staticmethod
    def blind(leadership: Leadership) -> None:
        leadership._own_doubt = lambda: ""  # type: ignore[method-assign]

    def again(self, action: Callable[[], Any], leadership: Leadership) -> Any:
        """Repeat what had no answer, as long as this process leads."""
        while True:
            try:
                return action()
            except (OutcomeUnknownError, NotConnectedError) as error:
                self.history.note("unknown", epoch=self.epoch, error=type(error).__name__)
                leadership._require_lease()

    def checkpoint(self, number: int) -> Checkpoint:
        return Checkpoint(
            job_id=self.order.job_id,
            number=number,
            run=self.order.run,
            epoch=self.epoch,
            reason=CheckpointKind.PERIODIC,
            created_at=self.clock.now(),
            queries={},
            directory="live",
            pin=None,
            graph=hashlib.sha256(b"").hexdigest(),
            spark_version="4.2.0",
        )

    def leader_info(self, epoch: int) -> LeaderInfo:
        return LeaderInfo(
            epoch=epoch,
            run=self.order.run,
            attempt=self.order.attempt,
            host="127.0.0.1",
            pid=os.getpid(),
            since=self.clock.now(),
        )

    def lost(self, reason: str) -> NoReturn:
        self.history.note("lost", epoch=self.epoch, reason=reason)
        os._exit(LOST)


def main() -> None:
    die_with_parent(os.getppid())
    order = Order(**json.load(sys.stdin))
    try:
        Driver(order).run()
    except CoordinationError as error:  # no server answered in time: the next process tries again
        print(error, file=sys.stderr, flush=True)
        os._exit(LOST)


if __name__ == "__main__":
    main()
