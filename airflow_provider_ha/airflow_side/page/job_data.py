"""Data of a job's page, from ZooKeeper and from storage, and the summary of its safety.

Invariant: unavailable storage affects only the parts of the page that come from it; each shows the reason.

Rules: known problems come first; data is called safe only if a verification or a drill has proven a checkpoint with all
committed batches; unreadable or unreported facts are called unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from airflow_provider_ha.airflow_side.page.clusters import BoundedCalls, ReadResult
from airflow_provider_ha.api.documents.checkpoints import (
    CheckpointListView,
    CheckpointRow,
    SavepointListView,
    checkpoint_list,
    savepoint_list,
)
from airflow_provider_ha.api.documents.history import DrillListView, HistoryView, drill_list, history_view
from airflow_provider_ha.api.documents.job import JobView
from airflow_provider_ha.api.documents.overview import DAY
from airflow_provider_ha.api.documents.restore_plan import PlanView, plan_view
from airflow_provider_ha.api.documents.verdict import LastVerificationView, last_verification_view
from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.checkpoints.restore.plan_execution import read_plan
from airflow_provider_ha.checkpoints.sinks.sink_registry import what_comes_again
from airflow_provider_ha.fleet.fleet_overview import restarts_since
from airflow_provider_ha.fleet.observations import reason_of_quarantine
from airflow_provider_ha.jobs.condition import JobCondition
from airflow_provider_ha.jobs.model import JobState, QueryStatus
from airflow_provider_ha.jobs.move.move_records import MoveRecord, read_moved
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.progress_history import KEPT, ProgressPoint, read_progress
from airflow_provider_ha.jobs.run_history import read_history
from airflow_provider_ha.jobs.runs.standbys import Standby
from airflow_provider_ha.jobs.runs.watchers import WatchStatus, watched
from airflow_provider_ha.jobs.status import JobStatus
from airflow_provider_ha.jobs.verification.verification_records import (
    DrillCache,
    DrillStore,
    DrillVerdict,
    read_last_verification,
)


GOOD, CALM, WARN, BAD = "good", "calm", "warn", "bad"
_OVER = (JobState.FINISHED, JobState.CANCELED)


@dataclass(frozen=True, slots=True, kw_only=True)
class SafetyFacts:
    """Facts behind the answers.

    :param condition: Decision about the job, apart from its quarantine.
    :param quarantine: Reason of the quarantine; empty without one.
    :param newest: Newest retained checkpoint; ``None`` without one.
    """

    job: JobView
    condition: JobCondition
    quarantine: str
    newest: CheckpointRow | None
    verification: ReadResult[LastVerificationView]
    drills: ReadResult[DrillListView]


@dataclass(frozen=True, slots=True)
class RestoreEvidence:
    """Checkpoint or savepoint judged by a verification or a drill.

    :param source: ``checkpoint-<n>`` or ``savepoint-<id>``.
    :param restorable: Verdict; ``None`` without an answer.
    :param at: Time of the judgement.
    """

    source: str
    restorable: bool | None
    at: datetime
    how: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Safety:
    """Answers about the safety of a job.

    :param level: Colour: ``good``, ``calm``, ``warn`` or ``bad``.
    :param safe: Sentence on the safety of the data.
    :param proven: Newest proof that a checkpoint can be restored; ``None`` without one.
    :param repeats: Batches that a loss of driver and working directory would repeat now, one sentence per query.
    :param certain: A leading driver currently reports each query.
    :param wrong: Problem; empty without one.
    :param to_do: Required action; empty without one.
    """

    level: str
    safe: str
    proven: RestoreEvidence | None
    repeats: tuple[str, ...]
    certain: bool
    wrong: tuple[str, ...]
    to_do: str


def safety_of(seen: SafetyFacts) -> Safety:
    """Return the answers."""
    job, newest = seen.job, seen.newest
    proofs = sorted(_proofs(seen), key=lambda each: each.at, reverse=True)
    bad = tuple(_bad(proofs))
    proven = next((each for each in proofs if each.restorable), None)
    pending = _pending(job, newest)
    behind = any(query.committed >= pending[name][0] for name, query in _queries(job).items() if name in pending)
    wrong = tuple(_wrong(seen))
    level, safe = _answer(seen, proven, bad, behind=behind)
    if wrong:
        ended = seen.condition.state in (JobState.LOST, JobState.FAILED)
        level = BAD if level == BAD or ended or seen.quarantine else WARN
    return Safety(
        level=level,
        safe=safe,
        proven=proven,
        repeats=tuple(_repeats(seen, pending)),
        certain=_is_certain(seen),
        wrong=(*bad, *wrong),
        to_do=_to_do(seen, bad),
    )


def _proofs(seen: SafetyFacts) -> Iterator[RestoreEvidence]:
    found = seen.verification.value
    if found is not None:
        yield RestoreEvidence(
            found.source, found.restorable, found.at, f"verification, depth {found.depth}", found.problem
        )
    for drill in seen.drills.value.drills if seen.drills.value is not None else ():
        restorable = {DrillVerdict.PASSED: True, DrillVerdict.FAILED: False}.get(drill.verdict)
        yield RestoreEvidence(drill.source, restorable, drill.started_at, "restore drill", "; ".join(drill.reasons))


def _bad(proofs: list[RestoreEvidence]) -> Iterator[str]:
    """Yield the newest negative answer per kind."""
    told = set[str]()
    for proof in proofs:
        if proof.restorable is False and proof.how not in told:
            what = "The last restore drill FAILED" if proof.how == "restore drill" else "NOT RESTORABLE"
            yield f"{what}: {proof.source}{f': {proof.why}' if proof.why else ''}"
        told.add(proof.how)


def _queries(job: JobView) -> dict[str, QueryStatus]:
    return {**job.not_started, **job.queries}


def _pending(job: JobView, newest: CheckpointRow | None) -> dict[str, tuple[int, int]]:
    """Return each query's written or in-flight batches that are in no checkpoint."""
    cut = newest.cut if newest is not None else {}
    found = {}
    for name, query in _queries(job).items():
        first, last = cut.get(name, -1) + 1, max(query.committed, query.planned)
        if last >= first:
            found[name] = (first, last)
    return found


def _unreported(seen: SafetyFacts) -> list[str]:
    """Return the queries of the newest checkpoint whose position is not reported by any driver."""
    return sorted(set(seen.newest.cut if seen.newest is not None else ()) - set(_queries(seen.job)))


def _is_certain(seen: SafetyFacts) -> bool:
    """Return whether a leading driver reports each query now; a dead one may have committed more than it reported."""
    return seen.job.leader is not None and seen.condition.state != JobState.STARTING and not _unreported(seen)


def _held(seen: SafetyFacts, newest: CheckpointRow, *, behind: bool) -> str:
    """Return the content of the newest checkpoint, as a clause without a final stop."""
    if unreported := _unreported(seen):
        names = ", ".join(unreported)
        return f"The batches committed after checkpoint {newest.number} are unknown: {names} is not reported"
    which = "committed batches" if _is_certain(seen) else "batches that its last driver has reported"
    return f"All {which}{' but those below' if behind else ''} are in checkpoint {newest.number}"


def _answer(
    seen: SafetyFacts, proven: RestoreEvidence | None, bad: tuple[str, ...], *, behind: bool
) -> tuple[str, str]:
    newest = seen.newest
    if newest is None:
        nothing = (
            "Nothing is committed yet."
            if _queries(seen.job)
            else "There is no checkpoint, and the driver reports no query."
        )
        return CALM, "There is no checkpoint yet." if behind else nothing
    holds = _held(seen, newest, behind=behind)
    if bad:
        return BAD, f"Your data may not be safe. {holds}."
    if seen.verification.problem or seen.drills.problem:
        return WARN, f"{holds}. Whether it can be restored is not known now: storage does not answer."
    if proven is None:
        return CALM, f"{holds}. No checkpoint has been proven yet."
    if proven.source == f"checkpoint-{newest.number}" and _is_certain(seen):
        return GOOD, f"{'' if behind else 'Safe. '}{holds}."
    return CALM, f"{holds}."


def _repeats(seen: SafetyFacts, pending: dict[str, tuple[int, int]]) -> Iterator[str]:
    for name, (first, last) in pending.items():
        query = _queries(seen.job)[name]
        batches = f"batch {first}" if first == last else f"batches {first} to {last}"
        yield f"{name} ({query.sink or 'not known'}): {batches}; {what_comes_again(query.sink)}"


def _wrong(seen: SafetyFacts) -> Iterator[str]:
    job, state, last = seen.job, seen.condition.state, seen.condition.last
    if seen.quarantine:
        yield f"The job is in quarantine: {seen.quarantine}"
    if job.decision:
        yield f"A decision is needed: {job.decision}"
    if state == JobState.FAILED:
        yield f"Run {job.run} FAILED"
    elif state == JobState.LOST:
        yield "Its driver is lost"
    elif state == JobState.STALLED:
        yield f"It is stalled: {job.message}"
    if last is not None and last.loops:
        yield f"{last.in_a_row} attempts in a row have failed"
    if job.warning and state not in (JobState.LOST, JobState.FAILED):
        yield "No process watches the job"


def _to_do(seen: SafetyFacts, bad: tuple[str, ...]) -> str:
    job, state, last = seen.job, seen.condition.state, seen.condition.last
    loops = last is not None and last.loops and state not in _OVER
    again = f", which continues from checkpoint {job.checkpoint}" if job.checkpoint is not None else ""
    steps = (
        (bool(seen.quarantine), "Repair the cause, then release the job."),
        (bool(job.decision), "Make the decision that the reason names."),
        (state == JobState.FAILED and bool(bad), "Repair the cause, then restore the job: the plan names the start."),
        (state == JobState.FAILED, f"Repair the cause, then submit the job again{again}; or restore it."),
        (state == JobState.LOST and not job.watched_by, "Recover it: no process will restart it."),
        (state == JobState.STALLED, "Look at its queries and executors."),
        (loops, "Read the log and repair the cause; the job restarts automatically."),
        (
            bool(job.warning),
            "Have a process watch it: unpause the DAG recover_jobs, or run spark-ha cluster recover --watch.",
        ),
        (bool(bad), "Take a savepoint, and verify or drill it. Do not restore the checkpoint named here."),
    )
    return next((step for holds, step in steps if holds), "")


SHOWN = 50  # rows per kind, sent with each refresh: one savepoint an hour makes 8,760 a year
DRILLS = 20  # shown; the first read takes 40 ms of S3 each, within the time limit of storage
_DRILLS_KNOWN = 1000  # of 50 jobs; a kilobyte each
_STORES = 8  # whose drills are known


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveJobData:
    """Data of a job in ZooKeeper.

    :param history: Newest :data:`SHOWN` epochs.
    :param standbys: Living standby drivers.
    :param restarts: Submissions after the first of their run in the last 24 hours.
    """

    snapshot: JobStatus
    watching: WatchStatus
    moved: MoveRecord | None
    quarantine: str
    history: HistoryView
    checkpoints: CheckpointListView
    savepoints: SavepointListView
    standbys: tuple[Standby, ...]
    restarts: int
    now: datetime

    @property
    def lag(self) -> int | None:
        """Unread rows of its queries; ``None`` if no leader reports them."""
        return self.snapshot.lag


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredJobData:
    """Data of a job in storage: parts of the page, each with its read error.

    :param options: Options of high availability, from the graph of the newest run.
    :param plan: Latest restore plan that started a run or a fallback.
    :param verification: Latest verification of a checkpoint or savepoint of the job.
    :param drills: Newest :attr:`most_drills` drills.
    :param progress: Durations and inputs of its batches, oldest first.
    """

    options: ReadResult[HaOptions]
    plan: ReadResult[PlanView]
    verification: ReadResult[LastVerificationView]
    drills: ReadResult[DrillListView]
    progress: ReadResult[Sequence[ProgressPoint]]

    @property
    def most_drills(self) -> int:
        """Maximum number of drills to read."""
        return DRILLS


def read_live_data(client: HaClient, snapshot: JobStatus) -> LiveJobData:
    """Read the remaining data of a job from ZooKeeper.

    :raises NotConnectedError: ZooKeeper could not be read.
    """
    job_id = snapshot.job_id
    job, coordinator = client.job(job_id), client.coordinator
    paths = client.paths.job(job_id)
    moved = read_moved(coordinator, paths)
    apart = coordinator.find(client.paths.quarantined(job_id))
    history = history_view(read_history(coordinator, paths, epochs=SHOWN))
    return LiveJobData(
        snapshot=snapshot,
        watching=watched(coordinator, paths),
        moved=moved[0] if moved is not None else None,
        quarantine=reason_of_quarantine(apart) if apart is not None else "",
        history=history,
        checkpoints=checkpoint_list(job_id, job.checkpoints.list(), snapshot=snapshot, history=history),
        savepoints=savepoint_list(job_id, job.savepoints.list()),
        standbys=job.standbys(snapshot),
        restarts=restarts_since(coordinator, client.paths, [job_id], client.clock.now() - DAY)[job_id],
        now=client.clock.now(),
    )


def read_stored_data(client: HaClient, storage: BoundedCalls, known: LiveJobData, *, since: datetime) -> StoredJobData:
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
    return StoredJobData(**storage.together({part.__name__: part for part in parts}))


@lru_cache(maxsize=_STORES)
def _drills_known(uri: str, endpoint: str | None) -> DrillCache:  # noqa: ARG001  # a cache per store
    return DrillCache(_DRILLS_KNOWN)
