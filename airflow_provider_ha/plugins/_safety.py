"""Summary of a job's page: data safety, problems, and required actions. Pure.

Rules: known problems come first; data is called safe only if a verification or a drill has proven a checkpoint with all
committed batches; unreadable or unreported facts are called unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from airflow_provider_ha.checkpoints.connectors.sinks import what_comes_again
from airflow_provider_ha.jobs.history.drills import DrillVerdict
from airflow_provider_ha.jobs.model import QueryStatus
from airflow_provider_ha.plugins._bounded import Answer
from airflow_provider_ha.recovery.losses import LOOPS_FROM
from airflow_provider_ha.views.checkpoints import CheckpointRow
from airflow_provider_ha.views.drills import DrillListView
from airflow_provider_ha.views.job import JobView
from airflow_provider_ha.views.last_verification import LastVerificationView


GOOD, CALM, WARN, BAD = "good", "calm", "warn", "bad"
_OVER = ("FINISHED", "CANCELED")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Facts behind the answers.

    :param quarantine: Why the job is in quarantine; empty if it is not.
    :param newest: Its newest retained checkpoint; ``None`` without one.
    """

    job: JobView
    quarantine: str
    newest: CheckpointRow | None
    verification: Answer[LastVerificationView]
    drills: Answer[DrillListView]


@dataclass(frozen=True, slots=True)
class Proof:
    """A checkpoint or savepoint judged by a verification or a drill.

    :param source: ``checkpoint-<n>`` or ``savepoint-<id>``.
    :param restorable: The verdict; ``None`` without an answer.
    :param at: Time of the judgement.
    """

    source: str
    restorable: bool | None
    at: datetime
    how: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Safety:
    """The answers.

    :param level: Colour: ``good``, ``calm``, ``warn`` or ``bad``.
    :param safe: Whether the data is safe.
    :param proven: The newest proof that a checkpoint can be restored; ``None`` without one.
    :param repeats: Batches that a loss of driver and working directory would repeat now, one sentence per query.
    :param certain: Whether a leading driver currently reports each query.
    :param wrong: The problem; empty without one.
    :param to_do: The required action; empty without one.
    """

    level: str
    safe: str
    proven: Proof | None
    repeats: tuple[str, ...]
    certain: bool
    wrong: tuple[str, ...]
    to_do: str


def safety_of(seen: Seen) -> Safety:
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
        level = BAD if level == BAD or job.state in ("LOST", "FAILED") or seen.quarantine else WARN
    return Safety(
        level=level,
        safe=safe,
        proven=proven,
        repeats=tuple(_repeats(seen, pending)),
        certain=_is_certain(seen),
        wrong=(*bad, *wrong),
        to_do=_to_do(seen, bad),
    )


def _proofs(seen: Seen) -> Iterator[Proof]:
    found = seen.verification.value
    if found is not None:
        yield Proof(found.source, found.restorable, found.at, f"verification, depth {found.depth}", found.problem)
    for drill in seen.drills.value.drills if seen.drills.value is not None else ():
        restorable = {DrillVerdict.PASSED: True, DrillVerdict.FAILED: False}.get(drill.verdict)
        yield Proof(drill.source, restorable, drill.started_at, "restore drill", "; ".join(drill.reasons))


def _bad(proofs: list[Proof]) -> Iterator[str]:
    """Yield the newest negative answer of each kind."""
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


def _unreported(seen: Seen) -> list[str]:
    """Return the queries of the newest checkpoint whose position no driver has reported."""
    return sorted(set(seen.newest.cut if seen.newest is not None else ()) - set(_queries(seen.job)))


def _is_certain(seen: Seen) -> bool:
    """Whether a leading driver currently reports each query: a dead one may have committed more than it reported."""
    return seen.job.leader is not None and seen.job.state != "STARTING" and not _unreported(seen)


def _held(seen: Seen, newest: CheckpointRow, *, behind: bool) -> str:
    """Return the content of the newest checkpoint, as a clause without a final stop."""
    if unreported := _unreported(seen):
        names = ", ".join(unreported)
        return f"What was committed after checkpoint {newest.number} is not known: {names} is not reported"
    which = "committed batches" if _is_certain(seen) else "batches that its last driver has reported"
    return f"All {which}{' but those below' if behind else ''} are in checkpoint {newest.number}"


def _answer(seen: Seen, proven: Proof | None, bad: tuple[str, ...], *, behind: bool) -> tuple[str, str]:
    newest = seen.newest
    if newest is None:
        nothing = (
            "Nothing is committed yet." if _queries(seen.job) else "There is no checkpoint, and no query is reported."
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


def _repeats(seen: Seen, pending: dict[str, tuple[int, int]]) -> Iterator[str]:
    for name, (first, last) in pending.items():
        query = _queries(seen.job)[name]
        batches = f"batch {first}" if first == last else f"batches {first} to {last}"
        yield f"{name} ({query.sink or 'not known'}): {batches}; {what_comes_again(query.sink)}"


def _wrong(seen: Seen) -> Iterator[str]:
    job, last = seen.job, seen.job.failure
    if seen.quarantine:
        yield f"The job is in quarantine: {seen.quarantine}"
    if job.decision:
        yield f"A decision is needed: {job.decision}"
    if job.state == "FAILED":
        yield f"Run {job.run} FAILED"
    elif job.state == "LOST":
        yield "Its driver is lost"
    elif job.state == "STALLED":
        yield f"It is stalled: {job.message}"
    if last is not None and last.in_a_row >= LOOPS_FROM:
        yield f"{last.in_a_row} attempts in a row have failed"
    if job.warning and job.state not in ("LOST", "FAILED"):
        yield "No process watches the job"


def _to_do(seen: Seen, bad: tuple[str, ...]) -> str:
    job, last = seen.job, seen.job.failure
    loops = last is not None and last.in_a_row >= LOOPS_FROM and job.state not in _OVER
    again = f", it goes on from checkpoint {job.checkpoint}" if job.checkpoint is not None else ""
    steps = (
        (bool(seen.quarantine), "Repair the cause, then release the job."),
        (bool(job.decision), "Decide, as the reason says."),
        (job.state == "FAILED" and bool(bad), "Repair the cause, then restore the job: the plan shows from what."),
        (job.state == "FAILED", f"Repair the cause, then submit the job again{again}; or restore it."),
        (job.state == "LOST" and not job.watched_by, "Recover it: no process will restart it."),
        (job.state == "STALLED", "Look at its queries and executors."),
        (loops, "Read the log and repair the cause; the job is started again by itself."),
        (bool(job.warning), "Have a process watch it: unpause the DAG recover_jobs, or run spark-ha recover --watch."),
        (bool(bad), "Take a savepoint, and verify or drill it. Do not restore what is named here."),
    )
    return next((step for holds, step in steps if holds), "")
