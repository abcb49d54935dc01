"""Removes the working directories that no run needs any more, and says so in the results of the runs.

Invariant: the newest working directory stays, and so does one that a retained checkpoint without a pin lies in: a
restore reads them. Everything else below ``live`` was forked by hard links, so that removing it takes nothing from what
was made of it. A result is CLEAN only after the removal: a crash in between leaves it DIRTY, for the next run's leader.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_ha.checkpoints.directories.fence import fenced_name
from airflow_provider_ha.checkpoints.directories.links import remove_tree
from airflow_provider_ha.checkpoints.retained.store import CheckpointStore
from airflow_provider_ha.coordination.election import Leadership
from airflow_provider_ha.errors import HaError, RecordCorruptError, VersionConflictError
from airflow_provider_ha.jobs.runs import RunStore


log = logging.getLogger(__name__)
_EPOCH = re.compile(r"\.*e(\d+)-")  # a hidden one is the remains of a directory that was half made or half removed


@dataclass(frozen=True, slots=True)
class Housekeeping:
    """The cleaning of one driver.

    :param work_path: Root of the keys of directories.
    :param current: Key of this epoch's working directory, which the generation names already.
    """

    runs: RunStore
    leadership: Leadership
    checkpoints: CheckpointStore
    work_path: Path
    current: str

    def finish_earlier(self, run: int) -> None:
        """Clean up after the runs before *run* whose results are still DIRTY."""
        self._clean(number for number in self.runs.numbers() if number < run)

    def finish(self, run: int) -> None:
        """Clean up after this driver's own run, which has its result."""
        self._clean(iter((run,)))

    def _clean(self, numbers: Iterator[int]) -> None:
        """Whatever goes wrong is no reason to disturb a run, or the end of one: the result stays DIRTY."""
        try:
            dirty = [number for number in numbers if (found := self.runs.result(number)) and found.cleanup == "DIRTY"]
            if dirty:
                self._remove_directories()
            for number in dirty:
                if (mark := self.runs.clean_op(number)) is not None:
                    self.leadership.commit(mark)
        except VersionConflictError:
            return  # somebody else marked it
        except (HaError, OSError) as error:
            log.warning("what is over could not be cleaned up; the next run tries again: %s", error)

    def _remove_directories(self) -> None:
        kept = self._kept()
        mine = _EPOCH.match(Path(self.current).name)
        live = (self.work_path / self.current).parent
        for path in sorted(live.iterdir()) if live.is_dir() else ():
            found = _EPOCH.match(path.name)
            # A directory of a later epoch is not ours to judge: this driver may have lost the job by now.
            if found is None or mine is None or int(found[1]) > int(mine[1]) or path in kept:
                continue
            log.info("working directory %s is removed", path.name)
            remove_tree(path)

    def _kept(self) -> set[Path]:
        """Return the directories that a restore could read, under both of their names.

        :raises RecordCorruptError: A checkpoint cannot be read, so what it needs is not known.
        """
        listing = self.checkpoints.list()
        if listing.unreadable:
            raise RecordCorruptError(f"checkpoint {listing.unreadable[0].name} cannot be read, so nothing is removed")
        keys = {self.current}
        keys |= {found.directory for found in map(self.checkpoints.load, listing.pointers) if not found.pin}
        roots = [self.work_path / key for key in keys]
        return {*roots, *map(fenced_name, roots)}
