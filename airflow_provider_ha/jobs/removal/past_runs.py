"""Retention of runs: selection of runs that ended long ago, and the removal of their records.

Invariants:

- The newest two runs always stay. A run also stays while it is live, not cleaned up or referred to, and while a
  submission of the run has no proof of death: missing knowledge is no proof.
- One transaction removes a run, checks epoch and leader node, and writes the notes about its requests
  (:mod:`~airflow_provider_ha.jobs.removal.removal_records`), so a reader sees the whole run or none. Only a run with
  very many submissions loses its oldest ones in earlier transactions; a reader recognises this by the rule in
  :mod:`~airflow_provider_ha.driver.members.housekeeping`.
- A claim that changes after it was read belongs to a live task: the transaction fails, and the run stays.
- The journal forgets a run after ZooKeeper (pointer first, blob second). The next call removes the remains of a crash.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import chain

from airflow_provider_ha.checkpoints.store.pointer_scan import Commit
from airflow_provider_ha.checkpoints.store.removal import clear_leases, leases_on_nothing
from airflow_provider_ha.clock import Clock
from airflow_provider_ha.config import Retention
from airflow_provider_ha.coordination.coordinator import Check, Coordinator, Delete, Node, Op, ReadResponse, Reads
from airflow_provider_ha.coordination.node_names import node_numbers
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.coordination.znode_records import read_record
from airflow_provider_ha.errors import (
    NodeExistsError,
    NodeMissingError,
    RecordCorruptError,
    VersionConflictError,
)
from airflow_provider_ha.jobs.job_graph import GraphPointer
from airflow_provider_ha.jobs.model import Generation, JobState, Run, RunResult, Status
from airflow_provider_ha.jobs.operations.operations import open_runs
from airflow_provider_ha.jobs.removal.removal_records import RemovedRun, RemovedRunStore
from airflow_provider_ha.jobs.runs.journal import JobJournal, has_earlier_life
from airflow_provider_ha.jobs.runs.output_claims import clear_claims, ended_claims
from airflow_provider_ha.jobs.runs.run_store import RunStore, decode
from airflow_provider_ha.jobs.runs.submissions import SubmissionExit
from airflow_provider_ha.jobs.runs.watchers import FOLLOWED, LIVE, FollowedRun
from airflow_provider_ha.names import safe_segment


_CLAIMS_AT_ONCE = 500
_USE = "#"  # request#2: the second run of the request


@dataclass(slots=True)
class Followers:
    """The claims in ``watchers`` as read, and the existing runs.

    :param claims: Name of a claim -> its node.
    :param notes: Name of a claim -> the node that records the followed run.
    :param followed: Name of a claim -> number of the followed run.
    :param runs: Run -> request that created it, for all existing runs.
    """

    claims: dict[str, Node] = field(default_factory=dict)
    notes: dict[str, Node] = field(default_factory=dict)
    followed: dict[str, int] = field(default_factory=dict)
    runs: dict[int, str] = field(default_factory=dict)

    def of(self, run: Run) -> tuple[list[str], list[Op]]:
        """Return the requests that led to this run and to no other existing one, and the removal of their claims."""
        others = {safe_segment(request) for number, request in self.runs.items() if number != run.number}
        own = request_of(run)
        # A request that created one run and follows another belongs to the newer run.
        follows = self.followed.get(safe_segment(own), 0)
        led = {safe_segment(own): own} if follows < run.number or follows not in self.runs else {}
        led |= {name: name for name, number in self.followed.items() if number == run.number}
        led = {name: request for name, request in led.items() if name not in others}
        nodes = [place[name] for name in led for place in (self.claims, self.notes) if name in place]
        return list(led.values()), [Delete(node.path, node.version) for node in nodes]

    def forget(self, run: Run) -> None:
        """Remove a run and its followers from this object."""
        self.runs.pop(run.number, None)
        self.followed = {name: number for name, number in self.followed.items() if number != run.number}


def request_of(run: Run) -> str:
    """Return the request that created a run, by its first or a later use."""
    return run.request_id.partition(_USE)[0]


def read_followers(coordinator: Coordinator, paths: JobPaths) -> Followers:
    """Read all claims of the job, and the requests of its runs."""
    found = Followers()
    runs = RunStore(coordinator, paths)
    found.runs = {number: request_of(run) for number, run in runs.runs(runs.numbers()).items()}
    names = [name for name in coordinator.children(paths.watchers) if not name.startswith(LIVE)]
    for start in range(0, len(names), _CLAIMS_AT_ONCE):
        part = {f"{paths.watchers}/{name}": name for name in names[start : start + _CLAIMS_AT_ONCE]}
        for path, node in coordinator.read(Reads(tuple(part))).nodes.items():
            if node is not None:
                _sort(found, part[path], node)
    return found


def _sort(found: Followers, name: str, node: Node) -> None:
    if not name.endswith(FOLLOWED):
        found.claims[name] = node
        return
    try:
        record = FollowedRun.from_bytes(node.data, source=f"znode {node.path}")
    except RecordCorruptError:
        found.claims[name] = node  # a task whose name ends like this, or a node of another program
        return
    task = name.removesuffix(FOLLOWED)
    found.notes[task], found.followed[task] = node, record.run


def expendable(
    numbers: Sequence[int],
    results: Mapping[int, RunResult],
    retention: Retention,
    *,
    now: datetime,
    in_use: AbstractSet[int] = frozenset(),
) -> list[int]:
    """Return the runs that are removable once the death of their processes is proven, oldest first.

    :param numbers: All runs, ascending.
    :param results: Run -> result, for runs with a result.
    :param in_use: Runs with references.
    """
    eldest = now - timedelta(days=retention.days)
    old = numbers[: -max(retention.runs, 2)]  # guard: the-newest-runs-go
    return [number for number in old if number not in in_use and _over(results.get(number), eldest)]


def _over(result: RunResult | None, eldest: datetime) -> bool:
    return result is not None and result.cleanup == "CLEAN" and result.at < eldest


log = logging.getLogger(__name__)
_OPS = 400  # per transaction: some 60 kB, far below ZooKeeper's limit, and fast
_PARTS_OF_A_RUN = frozenset({"submissions", "result", "claim", "standbys"})
_PARTS_OF_A_SUBMISSION = frozenset({"started", "led", "exit"})
_AT_ONCE = 20  # runs per read


@dataclass(frozen=True, slots=True)
class PastRun:
    """A removable run.

    :param nodes: Paths of all nodes below it, children first.
    """

    run: Run
    result: RunResult
    nodes: tuple[str, ...]


@dataclass(slots=True)
class PruneReport:
    """Counts of a job's removable records and of the removed ones.

    :param runs: Number of known runs.
    :param expendable: Numbers of the runs that can be removed.
    :param submissions: Number of their submissions.
    :param tasks: Number of tasks that had started or followed them.
    :param outputs: Number of output claims of ended runs.
    :param leases: Number of expired leases on removed checkpoints and savepoints.
    :param removed: Number of removed runs.
    :param kept: Run -> reason for keeping it, for runs that are old enough to be removed.
    :param left_to: The process that removes the runs, if this call did not; empty otherwise.
    """

    runs: int
    expendable: list[int] = field(default_factory=list)
    submissions: int = 0
    tasks: int = 0
    outputs: int = 0
    leases: int = 0
    removed: int = 0
    kept: dict[int, str] = field(default_factory=dict)
    left_to: str = ""


@dataclass(slots=True)
class PastRuns:
    """The ended runs of a job.

    :param in_use: Function that returns the runs that checkpoints, savepoints and claims refer to.
    :ivar kept: Run -> reason for keeping it, for runs that are old enough; complete after :meth:`find` or
        :meth:`clear`.
    :ivar removed: Number of runs that this object has removed.
    """

    coordinator: Coordinator
    paths: JobPaths
    journal: JobJournal
    retention: Retention
    clock: Clock
    in_use: Callable[[], AbstractSet[int]]
    kept: dict[int, str] = field(default_factory=dict)
    removed: int = field(default=0, init=False)

    def find(self) -> Iterator[PastRun]:
        """Yield the removable runs, oldest first. Changes nothing.

        :raises RecordCorruptError: A record that may refer to a run cannot be read; all runs stay.
        """
        runs = RunStore(self.coordinator, self.paths)
        numbers = runs.numbers()
        old = expendable(numbers, runs.results(), self.retention, now=self.clock.now())
        if not old:
            return
        in_use = self.in_use() | self._own_use()
        self.kept |= dict.fromkeys(in_use & set(old), "something refers to it")
        for part in _parts([number for number in old if number not in in_use]):
            yield from self._provable(part)

    def count(self) -> PruneReport:
        """Count the removable records. Changes nothing; raises as :meth:`find`."""
        found, tasks = PruneReport(runs=len(RunStore(self.coordinator, self.paths).numbers())), set[str]()
        followers = read_followers(self.coordinator, self.paths)
        for past in self.find():
            found.expendable.append(past.run.number)
            parent = self.paths.submissions(past.run.number)
            found.submissions += sum(node.rpartition("/")[0] == parent for node in past.nodes)
            tasks.update(followers.of(past.run)[0])
            followers.forget(past.run)
        found.tasks, found.kept = len(tasks), dict(self.kept)
        found.outputs = len(ended_claims(self.coordinator, self.paths))
        found.leases = len(leases_on_nothing(self.coordinator, self.paths, self.clock))
        return found

    def clear(self, commit: Commit) -> Iterator[None]:
        """Remove these runs and the other remains of ended runs; yield after each step.

        :param commit: ``leadership.commit`` of the job.
        :raises LeadershipError: This process may no longer write for the job.
        :raises HaError: A read or removal failed; the next call continues.
        """
        if has_earlier_life(self.coordinator, self.paths, self.journal):
            return
        for _ in self.clear_nodes(commit):
            yield
        yield from self._clear_journal()
        yield from clear_claims(self.coordinator, self.paths, commit)
        yield from clear_leases(self.coordinator, self.paths, commit, self.clock)

    def clear_nodes(self, commit: Commit) -> Iterator[int]:
        """Remove the znodes of the removable runs; yield a removed run's number, and 0 after removing part of a run."""
        found = self.find()
        first = next(found, None)
        if first is None:
            return
        newest = RunStore(self.coordinator, self.paths).numbers()[-1]
        followers = read_followers(self.coordinator, self.paths)
        for past in chain((first,), found):
            yield from self._remove(commit, past, followers, newest)

    def _own_use(self) -> frozenset[int]:
        """Return the runs that the job's own nodes refer to."""
        found = {self._run_of(self.paths.generation, Generation), self._run_of(self.paths.status, Status)}
        found.add(self._run_of(self.paths.job_graph, GraphPointer))
        found |= open_runs(self.coordinator, self.paths)
        return frozenset(found)

    def _run_of(self, path: str, record: type[Generation | Status | GraphPointer]) -> int:
        found = read_record(self.coordinator, path, record)
        return found[0].run if found else 0

    def _provable(self, numbers: Sequence[int]) -> Iterator[PastRun]:
        paths = self.paths
        seen = self.coordinator.read(
            Reads(
                tuple(path for number in numbers for path in (paths.run(number), paths.run_result(number))),
                tuple(path for number in numbers for path in (paths.run(number), paths.submissions(number))),
            )
        )
        attempts = {
            number: [f"{parent}/{attempt}" for attempt in node_numbers(seen.lists[parent], parent=parent)]
            for number in numbers
            for parent in (paths.submissions(number),)
        }
        under = tuple(path for each in attempts.values() for path in each)
        below = self.coordinator.read(Reads(tuple(f"{path}/exit" for path in under), under))
        for number in numbers:
            run, result = seen.nodes[paths.run(number)], seen.nodes[paths.run_result(number)]
            if run is None or result is None:
                continue  # removed after its number was read
            try:
                why = _why_it_stays(seen.lists[run.path], attempts[number], below)
                record = Run.from_bytes(run.data, source=f"znode {run.path}")
                ended = RunResult.from_bytes(result.data, source=f"znode {result.path}")
            except RecordCorruptError as error:
                why = error.message
            if why:
                self._keep(number, why)
                continue
            nodes = [node for path in attempts[number] for node in (*_children(path, below), path)]
            # reverse order: "submissions", empty by then, comes first
            names = sorted(seen.lists[run.path], reverse=True)
            yield PastRun(record, ended, (*nodes, *(f"{run.path}/{name}" for name in names)))

    def _remove(self, commit: Commit, past: PastRun, followers: Followers, newest: int) -> Iterator[int]:
        number, paths = past.run.number, self.paths
        led, claims = followers.of(past.run)
        failed = past.result.state is JobState.FAILED
        noted = {request: RemovedRun(run=number, failed=failed) for request in led}
        nodes = list(past.nodes)
        try:
            while len(nodes) > _OPS:
                cut = 1 + max(at for at in range(_OPS) if nodes[at].rpartition("/")[0] == paths.submissions(number))
                commit(*map(Delete, nodes[:cut]))  # the oldest submissions; the newest one is removed with the run
                nodes = nodes[cut:]
                yield 0
            while len(claims) > _OPS:
                commit(*claims[:_OPS])
                claims = claims[_OPS:]
                yield 0
            commit(
                Check(paths.run(newest)),
                *RemovedRunStore(self.coordinator, paths).note_ops(number, noted),
                *map(Delete, nodes),
                *claims,
                Delete(paths.run(number)),
            )
        except (NodeMissingError, NodeExistsError, VersionConflictError) as error:
            self._keep(number, f"it changes at this moment ({error.message})")
            return
        followers.forget(past.run)
        self.removed += 1
        log.info("run %d of %s, which ended %s, is removed", number, self.paths.job_id, past.result.at)
        yield number

    def _keep(self, number: int, reason: str) -> None:
        self.kept[number] = reason
        log.info("run %d of %s stays: %s", number, self.paths.job_id, reason)

    def _clear_journal(self) -> Iterator[None]:
        through = RemovedRunStore(self.coordinator, self.paths).read().through
        known = set(RunStore(self.coordinator, self.paths).numbers())
        yield from self.journal.forget_runs(lambda run: run <= through and run not in known)


def _why_it_stays(parts: Sequence[str], attempts: Sequence[str], below: ReadResponse) -> str:
    """Return the reason for keeping an unreferenced run; empty if it can be removed.

    :param parts: Names of the nodes below the run.
    :param attempts: Paths of its submissions.
    :param below: Exits of the submissions, and the names below them.
    :raises RecordCorruptError: An exit cannot be read.
    """
    strange = set(parts) - _PARTS_OF_A_RUN
    strange |= {name for path in attempts for name in below.lists[path]} - _PARTS_OF_A_SUBMISSION
    if strange:
        return f"it has a foreign node {min(strange)!r}"
    exits = (below.nodes[f"{path}/exit"] for path in attempts)
    unproven = sum(decode(node, SubmissionExit) is None for node in exits)
    # guard: runs-go-without-a-proof-of-death
    return f"nothing proves the death of the processes of {unproven} of its submissions" if unproven else ""


def _children(path: str, below: ReadResponse) -> list[str]:
    return [f"{path}/{name}" for name in below.lists[path]]


def _parts(items: Sequence[int]) -> Iterator[Sequence[int]]:
    return (items[start : start + _AT_ONCE] for start in range(0, len(items), _AT_ONCE))
