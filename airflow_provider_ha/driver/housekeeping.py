"""Removes working directories that runs no longer need, and records it in the results of the runs.

Invariant: the input of a restore stays (``checkpoints.retention.working_directories``). A result becomes CLEAN only
after the removal: a crash in between leaves it DIRTY, for the next run's leader.

A run of months leaves a fenced directory with each loss. Once the generation names this epoch's directory, which
includes the newest fenced directory's batches without a checkpoint (``checkpoints.working.unpublished_batches``), the
older ones have no reader. The newest one stays anyway: a restore of another job that began before the loss may still be
reading it, and people inspect it after a loss.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from airflow_provider_ha.checkpoints.retention.store import CheckpointStore
from airflow_provider_ha.checkpoints.retention.working_directories import superfluous_directories
from airflow_provider_ha.checkpoints.working.unfinished_drain import is_drain
from airflow_provider_ha.checkpoints.working.work_area import WorkArea
from airflow_provider_ha.coordination.election import Leadership
from airflow_provider_ha.errors import HaError, VersionConflictError
from airflow_provider_ha.jobs.runs import RunStore


log = logging.getLogger(__name__)


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

    def finish_earlier(self, run: int) -> None:
        """Clean up after the runs before *run* whose results are still DIRTY, and after the lost epochs of *run*."""
        self._clean([number for number in self.runs.numbers() if number < run])
        try:
            self._remove_fenced()
        except (HaError, OSError) as error:
            log.warning("fenced working directories stay; the next driver tries again: %s", error)

    def finish(self, run: int) -> None:
        """Clean up after this driver's own run, which has its result: it takes no further checkpoint."""
        try:
            self.checkpoints.shutdown(self.leadership, terminal=True)
        except (HaError, OSError) as error:
            log.warning("old checkpoints stay on the list of deletions; the next driver tries again: %s", error)
        self._clean([run])

    def _clean(self, numbers: Sequence[int]) -> None:
        """Clean up; a failure affects neither the run nor its end: the result stays DIRTY."""
        try:
            # guard: dirty-first-driver
            dirty = [number for number, found in self.runs.results(numbers).items() if found.cleanup == "DIRTY"]
            if dirty:
                self._remove_directories()
            for number in dirty:
                if (mark := self.runs.clean_op(number)) is not None:
                    self.leadership.commit(mark)
        except VersionConflictError:
            return  # another process marked it
        except (HaError, OSError) as error:
            log.warning("finished runs could not be cleaned up; the next run tries again: %s", error)

    def _remove_directories(self) -> None:
        for key in self._superfluous():
            self._remove(key)

    def _remove_fenced(self) -> None:
        """Remove the fenced directories of earlier epochs, except the newest, and the drains of earlier runs."""
        superfluous = self._superfluous()
        fenced = [key for key in superfluous if self.area.fenced(key) == key and not is_drain(key)]
        for key in (*fenced[:-1], *filter(is_drain, superfluous)):
            self._remove(key)

    def _superfluous(self) -> list[str]:
        if self.earlier_life():
            return []
        return superfluous_directories(self.checkpoints, self.area, self.current, drains_after=self.runs.drains_after())

    def _remove(self, key: str) -> None:
        log.info("working directory %s is removed", key)
        self.area.remove(key)
