"""Data of a job's page, read in two parts: from ZooKeeper and from storage.

Invariant: unavailable storage affects only the parts of the page that come from it; each shows the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from airflow_provider_ha.checkpoints.restore.planned_replays import read_plan
from airflow_provider_ha.control.administration.history import read_history
from airflow_provider_ha.control.administration.overview import restarts_since
from airflow_provider_ha.control.client import HaClient
from airflow_provider_ha.jobs.history.drills import DrillStore, ReadDrills
from airflow_provider_ha.jobs.history.last_verification import read_last_verification
from airflow_provider_ha.jobs.history.progress_history import KEPT, ProgressPoint, read_progress
from airflow_provider_ha.jobs.moves import Moved, read_moved
from airflow_provider_ha.jobs.options.ha_options import HaOptions
from airflow_provider_ha.jobs.presence import Watched, watched
from airflow_provider_ha.jobs.quarantine import reason_of
from airflow_provider_ha.jobs.status import JobStatus
from airflow_provider_ha.plugins._bounded import Answer, Bounded
from airflow_provider_ha.recovery.losses import losses_of
from airflow_provider_ha.views.checkpoints import CheckpointListView, checkpoint_list
from airflow_provider_ha.views.drills import DrillListView, drill_list
from airflow_provider_ha.views.history import HistoryView, history_view
from airflow_provider_ha.views.job import JobView, job_view
from airflow_provider_ha.views.last_verification import LastVerificationView, last_verification_view
from airflow_provider_ha.views.overview import DAY
from airflow_provider_ha.views.plan import PlanView, plan_view
from airflow_provider_ha.views.savepoints import SavepointListView, savepoint_list


SHOWN = 50  # rows per kind, sent with each refresh: one savepoint an hour makes 8,760 a year
DRILLS = 20  # shown; the first read takes 40 ms of S3 each, within the time limit of storage
_DRILLS_KNOWN = 1000  # of 50 jobs; a kilobyte each
_STORES = 8  # whose drills are known


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Data of a job in ZooKeeper.

    :param history: Its newest :data:`SHOWN` epochs.
    :param restarts: Submissions after the first of their run in the last 24 hours.
    """

    snapshot: JobStatus
    watching: Watched
    moved: Moved | None
    quarantine: str
    history: HistoryView
    checkpoints: CheckpointListView
    savepoints: SavepointListView
    restarts: int
    now: datetime

    @property
    def lag(self) -> int | None:
        """Unread rows of its queries; ``None`` if no leader reports them."""
        return self.snapshot.lag


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """Data of a job in storage: parts of the page, each with its read error.

    :param options: Its options of high availability; from the graph of the newest run.
    :param plan: The last restore plan that started a run or a fallback.
    :param verification: The last verification of one of its checkpoints or savepoints.
    :param drills: The newest :attr:`most_drills`.
    :param progress: Durations and inputs of its batches, oldest first.
    """

    options: Answer[HaOptions]
    plan: Answer[PlanView]
    verification: Answer[LastVerificationView]
    drills: Answer[DrillListView]
    progress: Answer[Sequence[ProgressPoint]]

    @property
    def most_drills(self) -> int:
        """Maximum number of drills to read."""
        return DRILLS


def read_known(client: HaClient, snapshot: JobStatus) -> Known:
    """Read the remaining data of a job from ZooKeeper.

    :raises NotConnectedError: ZooKeeper could not be read.
    """
    job_id = snapshot.job_id
    job, coordinator = client.job(job_id), client.coordinator
    paths = client.paths.job(job_id)
    moved = read_moved(coordinator, paths)
    apart = coordinator.find(client.paths.quarantined(job_id))
    history = history_view(read_history(coordinator, paths, epochs=SHOWN))
    return Known(
        snapshot=snapshot,
        watching=watched(coordinator, paths),
        moved=moved[0] if moved is not None else None,
        quarantine=reason_of(apart) if apart is not None else "",
        history=history,
        checkpoints=checkpoint_list(job_id, job.checkpoints.list(), snapshot=snapshot, history=history),
        savepoints=savepoint_list(job_id, job.savepoints.list()),
        restarts=restarts_since(coordinator, client.paths, [job_id], client.clock.now() - DAY)[job_id],
        now=client.clock.now(),
    )


def read_stored(client: HaClient, storage: Bounded, known: Known, *, since: datetime) -> Stored:
    """Read the data of a job from storage, all parts concurrently, with the time limit of *storage*.

    :param since: Begin of the batches to show.
    """
    snapshot = known.snapshot
    job_id = snapshot.job_id

    def options() -> HaOptions | None:
        return client.job(job_id).graph_of(snapshot.run.run).options if snapshot.run is not None else None

    def plan() -> PlanView | None:
        run, generation = snapshot.run, snapshot.generation
        if run is None:
            return None
        fallback = generation.fallback if generation is not None and generation.run == run.run.number else None
        blob = fallback.plan if fallback is not None else run.run.start.plan
        return plan_view(read_plan(client.store, blob.sha256)) if blob is not None else None

    def verification() -> LastVerificationView | None:
        found = read_last_verification(client.store, client.context(job_id).keys)
        return last_verification_view(found) if found is not None else None

    def drills() -> DrillListView:
        s3 = client.config.s3
        known = _drills_known(client.store.uri, s3.endpoint_url if s3 is not None else None)
        return drill_list(job_id, *DrillStore(client.store, client.context(job_id).keys, known).list(DRILLS))

    def progress() -> Sequence[ProgressPoint]:
        return read_progress(client.store, job_id, since=max(since, known.now - KEPT))

    parts = (options, plan, verification, drills, progress)
    return Stored(**storage.together({part.__name__: part for part in parts}))


@lru_cache(maxsize=_STORES)
def _drills_known(uri: str, endpoint: str | None) -> ReadDrills:  # noqa: ARG001  # a cache per store
    return ReadDrills(_DRILLS_KNOWN)


def shown_job(known: Known, options: HaOptions | None) -> JobView:
    """Return the header of the page."""
    losses = losses_of(known.snapshot, options, now=known.now)
    return job_view(known.snapshot, losses, known.watching, known.moved)
