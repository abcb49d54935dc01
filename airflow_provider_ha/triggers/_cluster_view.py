"""What a watcher of a cluster knows of its jobs, and what of them it has to read again.

Of each job two nodes are watched: its leader and its graph pointer. As long as both stay as they are, a job that is led
or idle is not read again. Every other job is surveyed at each poll (:mod:`~airflow_provider_ha.jobs.survey`), and
looked at as a whole when the survey cannot tell how it stands, and again when something has changed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.jobs.model import GraphPointer, LeaderInfo
from airflow_provider_ha.jobs.quarantine import quarantine_reason
from airflow_provider_ha.jobs.recoverable import Action, judge, look
from airflow_provider_ha.jobs.survey import Standing, Surveyed, survey
from airflow_provider_ha.triggers._notices import GRANTED, INTERIM, NO_LEADER, QUARANTINED, Condition, Event
from airflow_provider_ha.triggers._watched_nodes import Nodes


if TYPE_CHECKING:
    from airflow_provider_ha.control.client import HaClient


_LIST_AGAIN = 60.0  # seconds after which the jobs are listed also when no watch fires
_TURN = 5.0  # seconds of looks in one call; the event loop waits for an answer, and asks for the rest
_NOTHING = (Standing.IDLE, Standing.ENDED)  # there is nothing to recover


class JobList:
    """The jobs of a cluster, listed again when there may be more or fewer."""

    def __init__(self) -> None:
        self.jobs: tuple[str, ...] = ()
        self._listed: float | None = None

    def refresh(self, client: HaClient, wake: Callable[[], None]) -> None:
        """List the jobs if that is due. Called in a thread.

        :param wake: Called from another thread when they have to be listed again.
        :raises NotConnectedError: They could not be listed.
        """
        if self._listed is not None and time.monotonic() - self._listed < _LIST_AGAIN:
            return
        self._listed = time.monotonic()  # first: a watch that fires during the read makes the next one due

        def changed() -> None:
            self._listed = None  # guard: new-jobs-are-never-listed
            wake()

        try:
            self.jobs = tuple(client.list_jobs(watch=changed))
        except BaseException:
            self._listed = None
            raise


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of a job.

    :param nodes: Its watched nodes as they were then.
    :param until: When it has to be looked at again, if nothing changes.
    """

    nodes: tuple[object, ...]
    surveyed: Surveyed
    condition: Condition
    until: float


class ClusterView:
    """The leadership of a cluster's jobs. Not for several threads at once.

    :param grace: Seconds that a condition has to last.
    :param start_timeout: Seconds that a submission may take until it leads.
    :param look_again: Seconds after which a job without a leader is looked at also when nothing has changed.
    """

    def __init__(self, *, grace: float, start_timeout: float, look_again: float) -> None:
        self._grace = grace
        self._start_timeout = start_timeout
        self._look_again = look_again
        self._known: dict[str, _Known] = {}
        self._lock = threading.Lock()

    @staticmethod
    def nodes(cluster: ClusterPaths, jobs: Sequence[str]) -> list[str]:
        """Return the nodes that have to be watched."""
        # guard: events-by-watch
        return [node for job_id in jobs for node in _watched(cluster, job_id)]

    def leadership(self, client: HaClient, jobs: Sequence[str], found: Nodes) -> dict[str, Condition] | None:
        """Return how each job is led; reads those that may have changed. Called in a thread.

        :param found: The watched nodes.
        :returns: ``None`` when there is more to look at than one call should take: call again.
        :raises NotConnectedError, StorageUnavailableError: ZooKeeper or the storage did not answer.
        """
        with self._lock:  # a call that was given up may still go on
            return self._leadership(client, jobs, found)

    def _leadership(self, client: HaClient, jobs: Sequence[str], found: Nodes) -> dict[str, Condition] | None:
        cluster, begin = client.paths, time.monotonic()
        nodes = {job_id: tuple(found[node] for node in _watched(cluster, job_id)) for job_id in jobs}
        self._known = {job_id: known for job_id, known in self._known.items() if job_id in nodes}
        due = [job_id for job_id in jobs if self._is_due(job_id, nodes[job_id])]
        for seen in survey(client.coordinator, cluster, due) if due else ():
            before, now = self._known.get(seen.job_id), time.monotonic()
            if before is not None and _same(before.surveyed, seen) and begin < before.until:
                condition, until = before.condition, before.until
            elif now - begin > _TURN:
                return None
            else:
                condition, until = self._condition(client, seen), now + self._look_again
            self._known[seen.job_id] = _Known(nodes[seen.job_id], seen, condition, until)
        return {job_id: self._known[job_id].condition for job_id in jobs}

    def _is_due(self, job_id: str, nodes: tuple[object, ...]) -> bool:
        known = self._known.get(job_id)
        # guard: settled-jobs-are-never-read-again
        return known is None or known.surveyed.standing.needs_a_look or known.nodes != nodes

    def _condition(self, client: HaClient, seen: Surveyed) -> Condition:
        if seen.leader is not None:
            return self._granted(seen.leader)
        if seen.standing is Standing.QUARANTINED:  # guard: jobs-in-quarantine-are-silent
            return self._quarantined(client, seen)
        if seen.standing in _NOTHING:
            return Condition()
        if seen.pointer is not None and seen.standing in (Standing.LOST, Standing.STARTING):
            return self._no_leader(_reason(seen, seen.pointer), seen.standing, seen.pointer, seen.last_epoch)
        return self._looked_at(client, seen)

    def _looked_at(self, client: HaClient, seen: Surveyed) -> Condition:
        """Return what only the whole job tells: another release wrote its pointer, or something cannot be read."""
        sight = look(client.coordinator, client.store, client.paths, seen.job_id)
        judgement, snapshot = judge(sight), sight.snapshot
        if judgement.action is Action.LEAVE and snapshot is not None and snapshot.leader is not None:
            return self._granted(snapshot.leader)
        if judgement.action not in (Action.RECOVER, Action.WAIT, Action.QUARANTINE):  # guard: events-only-to-act-on
            return Condition()
        standing = Standing.STARTING if judgement.action is Action.WAIT else Standing.LOST
        if snapshot is None or snapshot.run is None:
            return self._no_leader(judgement.reason, standing)
        newest = snapshot.run.newest
        run, attempt = snapshot.run.run, newest.submission.attempt if newest else 0
        pointer = GraphPointer(graph=run.graph, run=run.number, attempt=attempt)
        return self._no_leader(judgement.reason, standing, pointer, snapshot.epoch)

    def _no_leader(
        self, reason: str, standing: Standing, pointer: GraphPointer | None = None, epoch: int = 0
    ) -> Condition:
        facts: Event = {"reason": reason}
        if pointer is not None:
            facts |= {"run": pointer.run, "attempt": pointer.attempt, "epoch": epoch}
        # guard: starting-is-not-lost
        lasting = self._start_timeout if standing is Standing.STARTING else self._grace
        return Condition(kind=NO_LEADER, key=(standing, *sorted(facts.items())), lasting=lasting, facts=facts)

    def _quarantined(self, client: HaClient, seen: Surveyed) -> Condition:
        reason = quarantine_reason(client.coordinator, client.paths, seen.job_id)
        if reason is None:  # it has been released since it was surveyed
            return Condition()
        facts: Event = {"reason": reason}
        if seen.pointer is not None:
            facts |= {"run": seen.pointer.run, "attempt": seen.pointer.attempt, "epoch": seen.last_epoch}
        return Condition(kind=QUARANTINED, key=(reason,), lasting=self._grace, facts=facts)

    def _granted(self, leader: LeaderInfo) -> Condition:
        if not leader.attempt:
            return INTERIM
        facts = leader.model_dump(mode="json", include={"run", "attempt", "epoch", "host", "pid"})
        return Condition(kind=GRANTED, key=(leader.epoch,), lasting=self._grace, facts=facts)


def _watched(cluster: ClusterPaths, job_id: str) -> tuple[str, str]:
    paths = cluster.job(job_id)
    return paths.leader, paths.job_graph


def _reason(seen: Surveyed, pointer: GraphPointer) -> str:
    if seen.standing is Standing.LOST:
        return f"run {pointer.run} has lost its driver, epoch {seen.last_epoch}"
    return f"attempt {pointer.attempt} of run {pointer.run} was submitted and has no leader yet"


def _same(before: Surveyed, now: Surveyed) -> bool:
    return (before.standing, before.mark) == (now.standing, now.mark)  # guard: changed-jobs-keep-their-old-reason
