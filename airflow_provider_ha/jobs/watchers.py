"""The claims of Airflow tasks on what they watch.

Two processes of one task instance can live at once: its supervisor dies, Airflow starts a second process, and the
first is killed later. Its ``on_kill`` must not stop the stream that the second one watches. So each process claims the
watcher's node, and a kill is a compare-and-set on that claim: who was overtaken has nothing to kill.

The claim has its own version and never the leader's epoch: a watcher decides nothing about the job. Its node is set,
never deleted: a version that begins again could make an old claim look like a current one.
"""

from __future__ import annotations

from enum import Enum
from typing import ClassVar

from airflow_provider_ha.clock import new_id
from airflow_provider_ha.coordination.coordinator import Coordinator, Create, Op, SetData
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.coordination.records import read_record
from airflow_provider_ha.errors import (
    NodeExistsError,
    NotConnectedError,
    OutcomeUnknownError,
    VersionConflictError,
)
from airflow_provider_ha.records import Record


ATTEMPTS = 10  # rivals for one task instance are two, seldom three


class WhenKilled(str, Enum):
    """What the killing of a watcher does to the stream."""

    DETACH = "detach"
    STOP_WITH_CHECKPOINT = "stop_with_checkpoint"
    CANCEL = "cancel"


class WatcherClaim(Record):
    """``watchers/<id>``: which process of a task instance watches now.

    :param holder: The task instance's id: Airflow makes a new one for each try.
    :param nonce: Of this very write: tells it from another one after a lost answer.
    :param released: Whether its holder gave it up; for people, the version tells programs.
    """

    kind: ClassVar[str] = "watcher-claim"

    holder: str
    when_killed: WhenKilled
    nonce: str
    released: bool = False


def claim(coordinator: Coordinator, paths: JobPaths, watcher_id: str, *, ti_id: str, when_killed: WhenKilled) -> int:
    """Claim a watcher for this process, whoever had it, and return the version of the claim.

    :param watcher_id: Of the task instance: the same for its retries, its processes and its triggers.
    :param ti_id: Who claims; the same one may claim again, when its trigger moves to another triggerer.
    :raises NotConnectedError: ZooKeeper did not answer.
    """
    path = paths.watcher(watcher_id)
    data = WatcherClaim(holder=ti_id, when_killed=when_killed, nonce=new_id()).to_bytes()
    for _ in range(ATTEMPTS):
        node = coordinator.find(path)
        write: Op = Create(path, data) if node is None else SetData(path, data, node.version)
        try:
            return coordinator.commit(write)[0]
        except (NodeExistsError, VersionConflictError, OutcomeUnknownError):
            continue
    raise NotConnectedError(f"watcher {watcher_id!r} could not be claimed in {ATTEMPTS} attempts")


def release(coordinator: Coordinator, paths: JobPaths, watcher_id: str, version: int) -> bool:
    """Give a claim up. Whether it was still held: only then may a kill do anything to the stream.

    True at most once per claim, also when an answer is lost on the way.

    :param version: Of the claim, as :func:`claim` returned it.
    :raises OutcomeUnknownError: ZooKeeper did not say; ask again.
    :raises NotConnectedError: ZooKeeper did not answer: whether it is held is not known.
    """
    path = paths.watcher(watcher_id)
    found = read_record(coordinator, path, WatcherClaim)
    if found is None:
        return False
    data = found[0].model_copy(update={"released": True, "nonce": new_id()}).to_bytes()
    try:
        coordinator.commit(SetData(path, data, version))
    except VersionConflictError:
        return False
    except OutcomeUnknownError:
        node = coordinator.get(path)
        if node.version == version:
            raise
        return node.data == data
    return True
