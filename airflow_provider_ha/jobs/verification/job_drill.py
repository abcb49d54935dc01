"""Restore drill of a job: choose, verify, copy, load and start a checkpoint, with times and verdict.

Invariants:

- The job is not affected. The checkpoint is leased and only read, and the copy is outside the job's directories. The
  drill writes to no sink, takes no lock and creates no run. The record is written only at the end of the drill.
- A failure takes precedence over an unknown result. An unknown result is never a failure: a drill whose Spark gave no
  answer has neither passed nor failed.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path

from airflow_provider_ha.checkpoints.restore.restore_point import SAVEPOINT
from airflow_provider_ha.checkpoints.restore.select import RestoreSource, Selection
from airflow_provider_ha.checkpoints.spark.releases import installed_version
from airflow_provider_ha.checkpoints.spark.tree import Tree
from airflow_provider_ha.checkpoints.store.checkpoint_pointers import pointer_path
from airflow_provider_ha.checkpoints.store.savepoints.manifest import check_files
from airflow_provider_ha.checkpoints.verify.proof_result import Proof, ProofOutcome
from airflow_provider_ha.clock import Clock
from airflow_provider_ha.errors import (
    CheckpointCorruptError,
    CheckpointError,
    CheckpointMissingError,
    ConfigurationError,
    ObjectMissingError,
    RecordCorruptError,
    StorageUnavailableError,
)
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.job_records import who
from airflow_provider_ha.jobs.job_stores import held, savepoint_store, select_checkpoint
from airflow_provider_ha.jobs.verification.job_verification import (
    ProofOptions,
    fetch,
    first_candidate,
    proof_place,
    prove_cut,
)
from airflow_provider_ha.jobs.verification.spark_proof import ProofProgress
from airflow_provider_ha.jobs.verification.verification_records import Drill, DrilledQuery, DrillStore, DrillVerdict


_SHOWN = 10  # reasons
_LETTERS = 500  # characters per reason


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillLimits:
    """Limits of a drill; ``None`` for no limit.

    :param max_age: Highest age of the checkpoint at the start of the drill, in seconds: the recovery point objective.
    :param max_duration: Longest duration of all steps, in seconds: the recovery time objective.
    :raises ConfigurationError: A limit is not above zero.
    """

    max_age: float | None = None
    max_duration: float | None = None

    def __post_init__(self) -> None:
        for name in ("max_age", "max_duration"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ConfigurationError(
                    f"a drill with {name} = {value} seconds cannot pass", next_step="Use more than 0, or no limit"
                )


def decide(
    limits: DrillLimits, age: float, total: float, problems: Sequence[str], proofs: Mapping[str, Proof]
) -> tuple[DrillVerdict, tuple[str, ...]]:
    """Return the verdict, and the reasons if it is not PASSED.

    :param age: Age of the checkpoint in seconds.
    :param total: Duration of the drill in seconds.
    :param problems: Reasons against a restore, found without Spark.
    :param proofs: Query -> result of Spark.
    """
    no = [*problems, *_refused(proofs), *_exceeded(limits, age, total)]
    if no:
        return DrillVerdict.FAILED, _readable(no)
    unknown = [f"query {query}: {_unknown(proof)}" for query, proof in proofs.items() if proof.proven is None]
    if unknown:
        return DrillVerdict.UNKNOWN, _readable(unknown)
    return DrillVerdict.PASSED, ()


def _exceeded(limits: DrillLimits, age: float, total: float) -> Iterator[str]:
    if limits.max_age is not None and age > limits.max_age:
        yield f"the newest restorable state is {age:.0f} s old, and at most {limits.max_age:g} s are allowed"
    if limits.max_duration is not None and total > limits.max_duration:
        yield f"the drill took {total:.1f} s, and at most {limits.max_duration:g} s are allowed"


def _refused(proofs: Mapping[str, Proof]) -> Iterator[str]:
    for query, proof in proofs.items():
        if proof.proven is not False:
            continue
        if proof.verdict is not None and not proof.verdict.restorable:
            yield from (f"{query}/{reason.path}: {reason.found}" for reason in proof.verdict.reasons)
        for doing, step in (("load its state", proof.loading), ("start it", proof.starting)):
            if step.outcome is ProofOutcome.REFUTED:
                yield f"query {query}: Spark refused to {doing}: {step.reason}"


def _unknown(proof: Proof) -> str:
    reasons = [step.reason for step in (proof.loading, proof.starting) if step.outcome is ProofOutcome.UNKNOWN]
    return "; ".join(dict.fromkeys(filter(None, reasons))) or "Spark gave no answer"


def _readable(reasons: Sequence[str]) -> tuple[str, ...]:
    """Shorten the reasons to a readable length: an error of Spark can be as long as its plan."""
    shown = [reason if len(reason) <= _LETTERS else f"{reason[:_LETTERS]}…" for reason in reasons[:_SHOWN]]
    left_off = len(reasons) - len(shown)
    return (*shown, f"and {left_off} more") if left_off else tuple(shown)


class Stopwatch:
    """Measures from the first step to the end of the last step. Not safe for several threads.

    :param clock: Source of the time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since = clock.lease_time()
        self._step: str | None = None
        self._seconds: dict[str, float] = {}

    @property
    def seconds(self) -> dict[str, float]:
        """Step -> seconds, in the order of first occurrence, without the step in progress."""
        return {step: round(seconds, 3) for step, seconds in self._seconds.items()}

    @property
    def total(self) -> float:
        """Seconds of all ended steps."""
        return round(sum(self._seconds.values()), 3)

    def begin(self, step: str) -> None:
        """End the current step and begin another; the same step simply continues."""
        if step != self._step:
            self.end()
            self._step = step

    def end(self) -> None:
        """End the current step."""
        now = self._clock.lease_time()
        if self._step is not None:
            self._seconds[self._step] = self._seconds.get(self._step, 0.0) + now - self._since
        self._since, self._step = now, None


log = logging.getLogger(__name__)

# storage answered that the object is missing or damaged
_NOT_RESTORABLE = (CheckpointError, ObjectMissingError, RecordCorruptError)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillRequest:
    """Request of a drill.

    :param drill_id: Id of the request. It finds a passed drill again, and repeats any other.
    :param start_from: ``"savepoint"`` for the newest savepoint, else as for a restore: ``"latest"`` (checkpoints
        first), ``"checkpoint-<n>"``, ``"savepoint-<id>"`` or ``"before <time>"``.
    :param limits: Limits for the age of the checkpoint and the duration of the drill.
    """

    drill_id: str
    requested_by: str
    start_from: str = SAVEPOINT
    limits: DrillLimits = field(default_factory=DrillLimits)
    options: ProofOptions = field(default_factory=ProofOptions)


_Findings = tuple[tuple[str, ...], Mapping[str, Proof]]  # reasons against a restore; query -> result of Spark


def drill(job: JobContext, request: DrillRequest, tell: Callable[[str], None] = log.info) -> Drill:
    """Drill a job, or find the drill of the request again. Returns its record, with any verdict.

    :param tell: Progress callback, called with a line at the start of a phase.
    :raises UnknownJobError: The job does not exist.
    :raises CheckpointMissingError: There is no checkpoint or savepoint to restore.
    :raises StorageUnavailableError: A read failed, or the copy could not be made; the drill has no record then.
    """
    job.snapshot()  # raises UnknownJobError
    records = DrillStore(job.store, job.keys)
    drill_id = records.next_id(request.drill_id)
    known = records.find(drill_id)
    if known is not None:
        log.info("drill %s of job %s has ended already: %s", drill_id, job.job_id, known.verdict.value)
        return known
    began, watch = job.clock.now(), Stopwatch(job.clock)
    phases = DrillPhases(watch, tell)
    choose = partial(_choose, job, request.start_from)
    with proof_place(job) as place, held(job, choose, by=f"drill {drill_id}") as name:
        phases.begin("choose", name)
        selection = select_checkpoint(job, start_from=name, fallback=False, depth="quick")
        problems, proofs = _prove(job, request, selection, place, phases)
        watch.end()
        if problems and job.coordinator.find(pointer_path(job.paths, name)) is None:
            raise StorageUnavailableError(f"{name} of job {job.job_id!r} was removed while it was drilled")
    asked = dataclasses.replace(request, drill_id=drill_id)
    record = _record(job, asked, selection, (problems, proofs), watch, began=began)
    log.info("drill %s of job %s: %s %s", drill_id, job.job_id, record.verdict.value, record.reasons)
    return records.add(record)


def _choose(job: JobContext, start_from: str) -> str:
    """Return the name of the checkpoint or savepoint to drill."""
    if start_from != SAVEPOINT:
        return first_candidate(job, start_from)
    listing = savepoint_store(job).list()
    for broken in listing.unreadable:
        raise CheckpointCorruptError(
            f"{SAVEPOINT}-{broken.name}", f"its pointer cannot be read, and may be the newest: {broken.reason}"
        )
    if not listing.pointers:
        raise CheckpointMissingError(
            f"job {job.job_id!r} has no savepoint that a drill could restore",
            next_step="Take a savepoint with `spark-ha savepoint trigger`, or drill its newest checkpoint: "
            "start_from='latest'",
            options=("start_from",),
        )
    return f"{SAVEPOINT}-{listing.pointers[0].savepoint_id}"


def _prove(job: JobContext, request: DrillRequest, selection: Selection, place: Path, phases: DrillPhases) -> _Findings:
    chosen = selection.chosen
    if chosen is None:
        last = selection.candidates[-1]
        return (f"{last.file or last.source}: {last.reason}",), {}
    directory = job.area.tree(chosen.directory)
    try:
        phases.begin("verify", "every byte is compared with the manifest")
        damaged = _damaged(job, chosen, directory)
        if damaged:
            return damaged, {}
        application = None
        if request.options.start:
            phases.begin("fetch", "the application comes out of storage")
            application = fetch(job, chosen.graph, place / "application")
        proofs = prove_cut(
            directory,
            chosen.queries,
            place,
            application=application,
            options=request.options,
            progress_to=phases.of_proof,
        )
    except _NOT_RESTORABLE as error:
        return (error.message,), {}
    return (), proofs


def _damaged(job: JobContext, chosen: RestoreSource, directory: Tree) -> tuple[str, ...]:
    """Compare every byte of a savepoint with its manifest; a checkpoint's pin lacks a manifest."""
    if chosen.source != SAVEPOINT:
        return ()
    manifest = savepoint_store(job).load(chosen.source_id)
    return tuple(f"{item.path}: {item.reason}" for item in check_files(directory, manifest, digests=True))


def _record(
    job: JobContext, request: DrillRequest, selection: Selection, found: _Findings, watch: Stopwatch, *, began: datetime
) -> Drill:
    candidate = selection.candidates[-1]
    age = (began - candidate.created_at).total_seconds()
    problems, proofs = found
    verdict, reasons = decide(request.limits, age, watch.total, problems, proofs)
    chosen = selection.chosen
    return Drill(
        drill_id=request.drill_id,
        job_id=job.job_id,
        source=candidate.source,
        taken_at=candidate.created_at,
        cut=candidate.cut,
        size=sum(sum(part.files.values()) for part in chosen.queries.values()) if chosen else 0,
        age_seconds=age,
        started_at=began,
        seconds=watch.seconds,
        total_seconds=watch.total,
        verdict=verdict,
        reasons=reasons,
        queries={query: _query(proof, candidate.cut[query]) for query, proof in proofs.items()},
        spark_version=installed_version(),
        requested_by=who(request.requested_by),
    )


def _query(proof: Proof, batch: int) -> DrilledQuery:
    return DrilledQuery(
        batch=batch,
        loaded=proof.loading.outcome.value,
        started=proof.starting.outcome.value,
        state_rows=sum(sum(state.rows) for state in proof.state),
        partitions=sum(len(state.rows) for state in proof.state),
    )


class DrillPhases:
    """Phases of a drill, one at a time. Not safe for several threads.

    :param watch: Measures the phases.
    :param tell: Progress callback, called with a line at the start of a phase.
    """

    def __init__(self, watch: Stopwatch, tell: Callable[[str], None]) -> None:
        self._watch = watch
        self._tell = tell
        self._last_line = ""

    def begin(self, step: str, what: str) -> None:
        """End the current phase and begin another; the same phase simply continues."""
        self._watch.begin(step)
        line = f"{step}: {what}"
        if line != self._last_line:
            self._last_line = line
            self._tell(line)

    def of_proof(self, now: ProofProgress) -> None:
        """Follow the proof of a query of the cut."""
        self.begin(now.step.value, f"query {now.query!r}, {now.doing}")
