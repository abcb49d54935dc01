"""What a script may know of its own high availability; nothing here is needed to be highly available.

A ``foreachBatch`` function of a driver that lost its job goes on until the process ends: Spark does not stop it. Values
that change by batch therefore need a token in the table, and this is where the script gets it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from airflow_provider_ha.errors import LeadershipLostError


@dataclass(frozen=True)
class DriverContext:
    """This driver's leadership.

    :param job_id: The job.
    :param run: Number of the run.
    :param epoch: Fencing token: grows with every driver of the job, for ever.
    :param restored_from: ``"epoch 3"``, ``"checkpoint-12"``, ``"savepoint-x"``; empty for a fresh start.
    """

    job_id: str
    run: int
    epoch: int
    restored_from: str
    lease_left: Callable[[], float]

    _current: ClassVar[DriverContext | None] = None

    def fenced(self, function: Callable[[Any, int], None]) -> Callable[[Any, int], None]:
        """Return a ``foreachBatch`` function that refuses to run without a valid lease.

        This narrows the window in which two drivers write; only a table that compares :attr:`epoch` closes it.

        :raises LeadershipLostError: When the returned function is called after the lease ran out.
        """

        @functools.wraps(function)
        def guarded(frame: Any, batch: int) -> None:
            if self.lease_left() <= 0:
                raise LeadershipLostError(
                    f"epoch {self.epoch} of job {self.job_id!r} has no lease: batch {batch} is refused"
                )
            function(frame, batch)

        return guarded


def current() -> DriverContext | None:
    """Return the context of this driver; ``None`` when the script runs without high availability."""
    return DriverContext._current  # noqa: SLF001  # this module is its keeper


def install(context: DriverContext | None) -> None:
    """Make *context* the one that scripts see."""
    DriverContext._current = context  # noqa: SLF001  # this module is its keeper
