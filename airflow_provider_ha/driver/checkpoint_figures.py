"""Figures of this driver's checkpoints, for its metrics."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from airflow_provider_ha.checkpoints.model import Checkpoint
from airflow_provider_ha.errors import HaError


@dataclass(frozen=True, slots=True)
class NewestCheckpoint:
    """The newest checkpoint of the job.

    :param size: Bytes of its files; ``None`` when they were not listed.
    """

    number: int
    created_at: datetime
    size: int | None = None


class CheckpointFigures:
    """The newest checkpoint, and the number of failures. Thread-safe.

    :ivar took: Called with the seconds from the cut of every new checkpoint to its pointer.
    """

    def __init__(self) -> None:
        self.took: Callable[[float], None] = lambda _: None
        self._newest: NewestCheckpoint | None = None
        self._failures = 0
        self._lock = threading.Lock()

    @property
    def newest(self) -> NewestCheckpoint | None:
        """The newest known checkpoint; ``None`` before the first."""
        with self._lock:
            return self._newest

    @property
    def failures(self) -> int:
        """Number of checkpoints that could not be taken."""
        with self._lock:
            return self._failures

    def found(self, newest: NewestCheckpoint) -> None:
        """Note a checkpoint that an earlier driver has taken."""
        with self._lock:
            self._newest = self._newest or newest

    def published(self, checkpoint: Checkpoint, seconds: float) -> None:
        """Note a new checkpoint."""
        with self._lock:
            self._newest = NewestCheckpoint(checkpoint.number, checkpoint.created_at, checkpoint.state_size)
        self.took(seconds)

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Count the block as a failed checkpoint when it raises."""
        try:
            yield
        except HaError:
            with self._lock:
                self._failures += 1
            raise
