"""Faults on purpose, each with its proof.

A kill hits the middle of a batch: it is sent as soon as a query has planned a batch that it has not committed. What the
directories said then, and which processes were gone afterwards, goes into the report.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from airflow_provider_ha.checkpoints.spark.checkpoint_layout import Progress
from airflow_provider_ha.checkpoints.spark.tree import Tree
from airflow_provider_ha.testing.waiting import wait_until
from tests.system.harness.observer import JobObserver, exists, progress, rows_in


Victim = Literal["python", "jvm", "host"]

BATCH_SECONDS = 300
DEATH_SECONDS = 60
RECOVERY_SECONDS = 600


@dataclass(frozen=True, slots=True)
class Kill:
    """Proof of one kill.

    :param victim: What was killed.
    :param epoch: Epoch of the leader that was killed.
    :param at: Seconds since 1970.
    :param progress: Query -> what its directory said at the kill: planned (offsets) and committed (commits) batch.
    :param pids: Processes of the driver before the kill.
    :param gone: Those that did not exist any more afterwards: all of them.
    """

    victim: Victim
    epoch: int
    at: float
    progress: dict[str, Progress]
    pids: dict[str, int]
    gone: tuple[int, ...]

    @property
    def in_flight(self) -> list[str]:
        """Queries that had planned a batch and not committed it."""
        return [query for query, found in self.progress.items() if found.planned == found.committed + 1]


@dataclass(frozen=True, slots=True)
class Recovery:
    """What came after a kill.

    :param epoch: Epoch of the new leader.
    :param query: Query that committed first.
    :param batch: Its first new batch.
    :param leader_seconds: Killed -> new leader.
    :param seconds: Killed -> first new commit.
    :param rows_replayed: Input rows of the batches that were in flight at the kill: they are read again.
    """

    epoch: int
    query: str
    batch: int
    leader_seconds: float
    seconds: float
    rows_replayed: int


@dataclass(frozen=True, slots=True)
class Damage:
    """What was done to the newest checkpoint.

    :param checkpoint: Its number.
    :param truncated: State file that lost its second half, relative to the checkpoint.
    :param emptied: Offsets file that has no byte left.
    """

    checkpoint: int
    truncated: str
    emptied: str


def kill_in_the_middle_of_a_batch(job: JobObserver, victim: Victim) -> Kill:
    """Kill one process of the driver with SIGKILL while a query has a batch in flight; return the proof.

    :raises TimeoutError: No batch was in flight in time, or a process did not die.
    """
    epoch, driver, directory = job.leader_epoch(), job.driver(), job.directory()
    await_new_batch(directory)
    os.kill(driver.python if victim == "python" else driver.jvm, signal.SIGKILL)
    found, at = progress(directory), time.time()
    wait_until(lambda: not driver.alive(), timeout=DEATH_SECONDS, what="the driver's processes to be gone")
    return Kill(
        victim=victim,
        epoch=epoch,
        at=at,
        progress=found,
        pids={"jvm": driver.jvm, "python": driver.python},
        gone=tuple(pid for pid in (driver.jvm, driver.python) if not exists(pid)),
    )


def await_recovery(job: JobObserver, kill: Kill) -> Recovery:
    """Wait for the first commit after *kill*, by a leader with a higher epoch.

    :raises TimeoutError: It did not come in time.
    """

    def led() -> int:
        epoch = job.leader_epoch()
        return epoch if epoch > kill.epoch else 0

    epoch = wait_until(led, timeout=RECOVERY_SECONDS, what=f"an epoch above {kill.epoch}")
    leader_seconds = time.time() - kill.at
    wait_until(lambda: job.directory().name.startswith(f"e{epoch}-"), timeout=RECOVERY_SECONDS, what="its directory")
    directory = job.directory()

    query, batch = await_commit(directory, kill.progress)
    seconds = time.time() - kill.at
    rows = sum(rows_in(directory / name, [kill.progress[name].planned]) for name in kill.in_flight)
    return Recovery(epoch, query, batch, leader_seconds, seconds, rows)


def await_commit(directory: Tree, before: Mapping[str, Progress]) -> tuple[str, int]:
    """Wait for a commit in a working directory that is newer than those *before*; returns its query and batch.

    :raises TimeoutError: It did not come in time.
    """

    def committed() -> tuple[str, int] | None:
        for query, now in progress(directory).items():
            found = before.get(query)
            if now.committed > (found.committed if found else -1):
                return query, now.committed
        return None

    return wait_until(committed, timeout=RECOVERY_SECONDS, what="the first new commit", interval=0.02)


def damage_checkpoint(pin: Path, older: Path, *, number: int) -> Damage:
    """Damage checkpoint *number* as a failing disk would: in place, so that its hard links suffer as well.

    :param pin: Its directory.
    :param older: Directory of the checkpoint before it, which must stay good: what they share is not hit.
    """
    state = _newest(pin, older, "*/state/**/*.zip") or _newest(pin, older, "*/state/**/*.delta")
    offsets = _newest(pin, older, "*/offsets/*")
    if state is None or offsets is None:
        message = f"checkpoint {number} has no new state or offsets: nothing happened since the one before"
        raise LookupError(message)
    os.truncate(state, state.stat().st_size // 2)
    os.truncate(offsets, 0)
    return Damage(number, str(state.relative_to(pin)), str(offsets.relative_to(pin)))


def as_json(fault: Kill | Recovery | Damage) -> dict[str, Any]:
    """Return a fault as it stands in the report."""
    return asdict(fault)


def await_new_batch(directory: Tree) -> None:
    """Return when a query has just planned a batch: the kill must not come when it ends."""
    before = progress(directory)

    def begun() -> bool:
        now = progress(directory)
        return any(now[query].planned > found.planned and now[query].in_flight for query, found in before.items())

    wait_until(begun, timeout=BATCH_SECONDS, what="a batch to begin", interval=0.002)


def _newest(pin: Path, older: Path, pattern: str) -> Path | None:
    """Return the youngest file of *pin* that *older* does not share; hidden ones (checksums) are no candidates."""
    shared = {path.stat().st_ino for path in older.rglob("*") if path.is_file()}
    own = [
        path
        for path in pin.glob(pattern)
        if path.is_file() and not path.name.startswith(".") and path.stat().st_ino not in shared
    ]
    return max(own, key=lambda path: (path.stat().st_mtime_ns, path.name), default=None)
