"""Removal of the remains of earlier drivers: working directories, directories and records of submissions.

Invariant: the input of a restore stays (``checkpoints.retention.working_directories``). A result becomes CLEAN only
after the removal: a crash in between leaves it DIRTY, for the next run's leader.

A run of months leaves a fenced directory with each loss. Once the generation names this epoch's directory, which
includes the newest fenced directory's batches without a checkpoint (``checkpoints.working.unpublished_batches``), the
older ones have no reader. The newest one stays anyway: a restore of another job that began before the loss may still be
reading it, and people inspect it after a loss.

Invariants: a submission is over when its supervisor has proven that all its processes are dead; unreadable records are
no proof, so such a submission stays complete. The newest ones always stay, for people who look for the reason of a
loss, and for the count of attempts (``recovery.restart``): at most *restart_attempts* of them can follow each other
without a driver that lived. A submission's records are removed only after its directory. With a removed run
(``jobs.retention.past_runs``) all its records go; each host removes its directories when it leads next.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from airflow_provider_ha.checkpoints.areas.drain import is_drain
from airflow_provider_ha.checkpoints.areas.work_area import WorkArea
from airflow_provider_ha.checkpoints.store.checkpoint_store import CheckpointStore
from airflow_provider_ha.checkpoints.store.working_directories import superfluous_directories
from airflow_provider_ha.coordination.coordinator import Coordinator, Delete, Reads
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.coordination.node_names import node_numbers
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.errors import HaError, LeadershipError, RecordCorruptError, VersionConflictError
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.removal.past_runs import PastRuns
from airflow_provider_ha.jobs.removal.removal_records import RemovedRunStore
from airflow_provider_ha.jobs.runs.journal import JobJournal, has_earlier_life
from airflow_provider_ha.jobs.runs.run_store import RunStore, decode
from airflow_provider_ha.jobs.runs.standbys import StandbyStore
from airflow_provider_ha.jobs.runs.submissions import SubmissionExit
from airflow_provider_ha.storage.durable import REMOVED, remove_tree
from airflow_provider_ha.storage.keys import STANDBY, JobKeys


log = logging.getLogger(__name__)
DIRECTORIES = 10  # that stay, of the job
ATTEMPTS = 50  # kept in ZooKeeper, per run: enough for the longest delay before a restart
_AT_A_TIME = 50
_DIRECTORY = re.compile(r"(\d+)-(\d+)")
_STANDBY = re.compile(rf"(\d+)-{STANDBY}-([0-9a-f]+)")
STANDBY_SECONDS = 86_400.0  # that the directory of a standby driver stays after its last entry, unless it led
_REMAINS = re.compile(rf"\.(\d+-(?:\d+|{STANDBY}-[0-9a-f]+))\.[0-9a-f]+{re.escape(REMOVED)}")

T = TypeVar("T")
Attempt = tuple[int, int]
"""Run and attempt."""
Promoted = Mapping[Attempt, str]
"""Submissions that were standby drivers before, and the names of their directories."""


@dataclass(frozen=True, slots=True)
class PastAttempts:
    """The remains of a job's earlier submissions.

    :param home_path: Directory of the drivers' files on this host.
    :param own: The submission of this driver.
    :param runs: The runs that ended long ago.
    :param notes: Removes notes about fenced functions that restores no longer need, and yields after each.
    :param blobs: Starts to remove blobs that are no longer referenced.
    """

    coordinator: Coordinator
    paths: JobPaths
    keys: JobKeys
    home_path: Path
    leadership: Leadership
    journal: JobJournal
    options: HaOptions
    own: Attempt
    runs: PastRuns
    notes: Callable[[], Iterator[None]]
    blobs: Callable[[], object]

    def clear(self) -> Iterator[None]:
        """Remove the remains of finished submissions; yields after each step.

        :raises LeadershipError: This process may no longer write for the job.
        :raises HaError, OSError: Something could not be read or removed.
        """
        if has_earlier_life(self.coordinator, self.paths, self.journal):
            return
        promoted = self._promoted()
        yield from self._remove_directories(promoted)
        present = self._present()
        yield
        yield from self._forget_attempts(present, promoted)
        yield from self._forget_recoveries()

        def forgotten(run: int, attempt: int) -> bool:
            known = present.get(run, [])
            return bool(known) and attempt < known[-1] - self._kept and attempt not in known

        yield from self.journal.forget(forgotten, before_epoch=self.leadership.epoch - ATTEMPTS)
        yield from self.notes()
        yield from self.runs.clear(self.leadership.commit)
        if self.runs.removed:
            self.blobs()

    @property
    def _kept(self) -> int:
        return max(ATTEMPTS, self.options.restart_attempts + 2, self.options.application_failures + 2)

    @property
    def _parent(self) -> Path:
        return (self.home_path / self.keys.application(0, 0)).parent

    def _remove_directories(self, promoted: Promoted) -> Iterator[None]:
        names = [path.name for path in self._parent.iterdir()] if self._parent.is_dir() else []
        removed = self._removed_runs()
        standbys = [match for name in names if (match := _STANDBY.fullmatch(name))]
        living = StandbyStore(self.coordinator, self.paths, self.own[0]).ids() if standbys else []
        for standby in standbys:
            # guard: directory-of-a-living-standby-goes
            if standby[0] in promoted.values() or standby[2] in living:
                continue
            if removed(int(standby[1])) or self._is_old(standby[0]):
                self.leadership.prove()
                log.info("the directory of the standby driver %s is removed", standby[0])
                remove_tree(self._parent / standby[0])
                yield
        for part in _parts(superfluous([*names, *(f"{run}-{attempt}" for run, attempt in promoted)], self.own)):
            gone = [attempt for attempt in part if removed(attempt[0])]
            for attempt in (*gone, *self._over([each for each in part if each not in gone])):
                self.leadership.prove()
                log.info("the directory of submission %d of run %d is removed", attempt[1], attempt[0])
                remove_tree(self._directory(attempt, promoted))
                yield
        for name in names:
            remains = _REMAINS.fullmatch(name)
            if remains and not (self._parent / remains[1]).exists():
                remove_tree(self._parent / remains[1])  # its remover died
                yield

    def _is_old(self, name: str) -> bool:
        return time.time() - (self._parent / name).stat().st_mtime > STANDBY_SECONDS

    def _promoted(self) -> Promoted:
        """Return the submissions that were standby drivers on this host, with their directories."""
        here = [match for path in self._parent.glob(f"*-{STANDBY}-*") if (match := _STANDBY.fullmatch(path.name))]
        runs = RunStore(self.coordinator, self.paths)
        known = set(runs.numbers()) if here else set()
        found = {}
        for run in {int(match[1]) for match in here} & known:
            names = {match[2]: match[0] for match in here if int(match[1]) == run}
            for view in runs.get(run).submissions:
                if view.submission.standby and view.submission.submission_id in names:
                    found[run, view.submission.attempt] = names[view.submission.submission_id]
        return found

    def _removed_runs(self) -> Callable[[int], bool]:
        """Return a predicate for removed runs: the death of all their processes was proven before the removal."""
        before = RemovedRunStore(self.coordinator, self.paths).read()
        known = set(RunStore(self.coordinator, self.paths).numbers())
        # guard: directories-of-unknown-runs-go
        return lambda run: before.removed(run) and run not in known

    def _directory(self, attempt: Attempt, promoted: Promoted) -> Path:
        name = promoted.get(attempt)
        return self.home_path / self.keys.application(*attempt) if name is None else self._parent / name

    def _over(self, attempts: Sequence[Attempt]) -> list[Attempt]:
        """Return the members of *attempts* whose processes are proven dead."""
        exits = {attempt: self.paths.submission_exit(*attempt) for attempt in attempts}
        seen = self.coordinator.read(Reads(tuple(exits.values())))
        over = []
        for attempt, path in exits.items():
            try:
                if decode(seen.nodes[path], SubmissionExit) is not None:  # guard: directories-of-living-submissions-go
                    over.append(attempt)
            except RecordCorruptError as error:  # noqa: PERF203  # one bad record keeps no other
                log.warning("submission %d of run %d stays: %s", attempt[1], attempt[0], error)
        return over

    def _present(self) -> dict[int, list[int]]:
        """Return run -> its attempts in ZooKeeper, ascending."""
        runs = node_numbers(self.coordinator.children(self.paths.runs), parent=self.paths.runs)
        parents = {run: self.paths.submissions(run) for run in runs}
        seen = self.coordinator.read(Reads((), tuple(parents.values())))
        return {run: node_numbers(seen.lists[path], parent=path) for run, path in parents.items()}

    def _forget_attempts(self, present: dict[int, list[int]], promoted: Promoted) -> Iterator[None]:
        old = [(run, attempt) for run, attempts in present.items() for attempt in attempts[: -self._kept]]
        for part in _parts(old):
            over = [attempt for attempt in self._over(part) if not self._directory(attempt, promoted).exists()]
            nodes = {self.paths.submission(*attempt): attempt for attempt in over}
            seen = self.coordinator.read(Reads((), tuple(nodes)))
            doomed = [Delete(f"{path}/{name}") for path in nodes for name in seen.lists[path]]
            self.leadership.commit(*doomed, *map(Delete, nodes))
            for run, attempt in over:
                present[run].remove(attempt)
            yield

    def _forget_recoveries(self) -> Iterator[None]:
        epochs = node_numbers(self.coordinator.children(self.paths.recoveries), parent=self.paths.recoveries)
        old = [epoch for epoch in epochs if epoch < self.leadership.epoch - ATTEMPTS]
        for part in _parts(old):
            self.leadership.commit(*(Delete(self.paths.recovery(epoch)) for epoch in part))
            yield


def superfluous(names: Sequence[str], own: Attempt) -> list[Attempt]:
    """Return the submissions, oldest first, whose directories can be removed once they are over. Pure.

    :param names: Entries of the submissions' directory.
    :param own: The calling submission.
    """
    found = sorted((int(match[1]), int(match[2])) for name in names if (match := _DIRECTORY.fullmatch(name)))
    return [attempt for attempt in found[:-DIRECTORIES] if attempt != own]


def _parts(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[start : start + _AT_A_TIME] for start in range(0, len(items), _AT_A_TIME))


@dataclass(frozen=True, slots=True)
class Housekeeping:
    """The cleaning of a driver.

    :param area: Holds the working directories.
    :param current: Key of this epoch's working directory, which the generation already names.
    :param earlier_life: Whether the job has directories from before ZooKeeper knew it: then all directories stay.
    """

    runs: RunStore
    leadership: Leadership
    checkpoints: CheckpointStore
    area: WorkArea
    current: str
    earlier_life: Callable[[], bool] = lambda: False

    def finish_earlier(self, run: int) -> Iterator[None]:
        """Clean up after the runs before *run* whose results are still DIRTY, and after the lost epochs of *run*.

        Yields after each directory.

        :raises LeadershipError: This process may no longer write for the job.
        """
        yield from self._clean([number for number in self.runs.numbers() if number < run])
        try:
            yield from self._remove_fenced()
        except LeadershipError:
            raise
        except (HaError, OSError) as error:
            log.warning("fenced working directories stay; the next driver tries again: %s", error)

    def finish(self, run: int) -> None:
        """Clean up after this driver's own run, which has its result: it takes no further checkpoint."""
        try:
            self.checkpoints.shutdown(self.leadership, terminal=True)
        except (HaError, OSError) as error:
            log.warning("old checkpoints stay on the list of deletions; the next driver tries again: %s", error)
        try:
            for _ in self._clean([run]):
                pass
        except LeadershipError as error:
            log.warning("the next leader cleans up after run %d: %s", run, error)

    def _clean(self, numbers: Sequence[int]) -> Iterator[None]:
        """Clean up; a failure affects neither the run nor its end: the result stays DIRTY."""
        try:
            # guard: dirty-first-driver
            dirty = [number for number, found in self.runs.results(numbers).items() if found.cleanup == "DIRTY"]
            if dirty:
                yield from self._remove(self._superfluous())
            for number in dirty:
                if (mark := self.runs.clean_op(number)) is not None:
                    self.leadership.commit(mark)
        except VersionConflictError:
            return  # another process marked it
        except LeadershipError:
            raise
        except (HaError, OSError) as error:
            log.warning("finished runs could not be cleaned up; the next run tries again: %s", error)

    def _remove_fenced(self) -> Iterator[None]:
        """Remove the fenced directories of earlier epochs, except the newest, and the drains of earlier runs."""
        superfluous = self._superfluous()
        fenced = [key for key in superfluous if self.area.fenced(key) == key and not is_drain(key)]
        yield from self._remove([*fenced[:-1], *filter(is_drain, superfluous)])

    def _superfluous(self) -> list[str]:
        if self.earlier_life():
            return []
        return superfluous_directories(self.checkpoints, self.area, self.current, drains_after=self.runs.drains_after())

    def _remove(self, keys: Iterable[str]) -> Iterator[None]:
        for key in keys:
            self.leadership.prove()
            log.info("working directory %s is removed", key)
            self.area.remove(key)
            yield
