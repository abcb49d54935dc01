"""The claims of Airflow tasks on what they watch.

Two processes of one task instance can live at once: its supervisor dies, Airflow starts a second process, and the
first is killed later. Its ``on_kill`` must not stop the stream that the second one watches. So each process claims the
watcher's node, and a kill is a compare-and-set on that claim: a process that was overtaken kills
nothing.

The claim has its own version and never the leader's epoch: a watcher decides nothing about the job. Its node is set,
never deleted: a version that begins again could make an old claim look like a current one.

A run may have any number of watchers. Which run the watcher of another request follows is written down beside its
claim, so that its retries and clears find the same one. Each claim has its own ``when_killed``.
"""

from __future__ import annotations

from enum import Enum
from typing import ClassVar

from airflow_provider_ha.clock import new_id
from airflow_provider_ha.coordination.coordinator import Coordinator, Create, Op, SetData
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.coordination.records import create_once, read_record
from airflow_provider_ha.errors import (
    NodeExistsError,
    NotConnectedError,
    OutcomeUnknownError,
    VersionConflictError,
)
from airflow_provider_ha.jobs.removed_runs import RemovedRunStore, removed
from airflow_provider_ha.names import safe_segment
from airflow_provider_ha.records import Record


FOLLOWED = "-run"  # after the name of a claim: the node that says which run it follows
ATTEMPTS = 10  # rivals for one task instance are two, seldom three


class WhenKilled(str, Enum):
    """What the killing of a watcher does to the stream."""

    DETACH = "detach"
    STOP_WITH_CHECKPOINT = "stop_with_checkpoint"
    CANCEL = "cancel"


class WatcherClaim(Record):
    """``watchers/<id>``: which process of a task instance watches now.

    :param holder: The task instance's id: Airflow makes a new one for each try.
    :param nonce: Of this very write: distinguishes it from another one after a lost answer.
    :param released: Whether its holder gave it up; for people; programs compare the version.
    """

    kind: ClassVar[str] = "watcher-claim"

    holder: str
    when_killed: WhenKilled
    nonce: str
    released: bool = False


class FollowedRun(Record):
    """``watchers/<id>-run``: which run of another request the watcher of that claim follows.

    :param run: Its number.
    """

    kind: ClassVar[str] = "followed-run"

    run: int


def follow_first(coordinator: Coordinator, paths: JobPaths, watcher_id: str, run: int) -> int:
    """Return the run that a watcher has followed first, which is *run* when it follows none yet.

    :raises JobStateError: The run that it has followed was removed.
    """
    path = _followed(paths, watcher_id)
    if coordinator.find(path) is None and (gone := RemovedRunStore(coordinator, paths).find(watcher_id)) is not None:
        raise removed(paths, gone.run)
    create_once(coordinator, path, FollowedRun(run=run))
    found = read_record(coordinator, path, FollowedRun)
    return found[0].run if found else run


def follow(coordinator: Coordinator, paths: JobPaths, watcher_id: str, run: int) -> None:
    """Note that a watcher follows *run* from now on.

    :raises NotConnectedError: ZooKeeper did not answer.
    """
    path = _followed(paths, watcher_id)
    data = FollowedRun(run=run).to_bytes()
    for _ in range(ATTEMPTS):
        found = read_record(coordinator, path, FollowedRun)
        if found is not None and found[0].run == run:
            return
        write: Op = Create(path, data) if found is None else SetData(path, data, found[1])
        try:
            coordinator.commit(write)
        except (NodeExistsError, VersionConflictError, OutcomeUnknownError):
            continue
    raise NotConnectedError(f"what watcher {watcher_id!r} follows could not be noted in {ATTEMPTS} attempts")


def followed(coordinator: Coordinator, paths: JobPaths, watcher_id: str) -> int | None:
    """Return the run of another request that a watcher follows; ``None`` when there is none."""
    found = read_record(coordinator, _followed(paths, watcher_id), FollowedRun)
    return found[0].run if found else None


def _followed(paths: JobPaths, watcher_id: str) -> str:
    # Ids of requests end in a digest, so this is no other watcher's claim.
    return paths.watcher(f"{safe_segment(watcher_id)}{FOLLOWED}")


def claim(coordinator: Coordinator, paths: JobPaths, watcher_id: str, *, ti_id: str, when_killed: WhenKilled) -> int:
    """Claim a watcher for this process, also when another one had it, and return the version of the claim.

    :param watcher_id: Of the task instance: the same for its retries, its processes and its triggers.
    :param ti_id: Id of the task instance; it may claim again, when its trigger moves to another triggerer.
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
