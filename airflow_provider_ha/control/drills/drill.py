"""The restore drill of a job: choose, verify, copy, load and start what a disaster would be survived with, and time it.

Invariant: the job does not notice. What is drilled is leased and only read; the copy lies in no directory of the job,
no sink is written, no lock is taken, no run is made. The record is written when the drill is over, and only then.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path

from airflow_provider_ha.checkpoints.format.releases import installed_version
from airflow_provider_ha.checkpoints.proof.report import Proof
from airflow_provider_ha.checkpoints.restore.select import Chosen, Selection
from airflow_provider_ha.checkpoints.restore.wanted import SAVEPOINT
from airflow_provider_ha.checkpoints.retention.pointers import pointer_path
from airflow_provider_ha.checkpoints.savepoints.savepoint_files import check_files
from airflow_provider_ha.checkpoints.trees.tree import Tree
from airflow_provider_ha.control.drills.drill_verdict import Limits, decide
from airflow_provider_ha.control.drills.stopwatch import Stopwatch
from airflow_provider_ha.control.job.context import JobContext
from airflow_provider_ha.control.job.reader_lease import held
from airflow_provider_ha.control.job.stores import savepoint_store, select_checkpoint
from airflow_provider_ha.control.verification.cut_proof import ProofOptions, fetch, proof_place, prove_cut
from airflow_provider_ha.control.verification.prove import ProofProgress
from airflow_provider_ha.control.verification.verified_cut import first_candidate
from airflow_provider_ha.errors import (
    CheckpointCorruptError,
    CheckpointError,
    CheckpointMissingError,
    ObjectMissingError,
    RecordCorruptError,
    StorageUnavailableError,
)
from airflow_provider_ha.jobs.history.drills import Drill, DrilledQuery, DrillStore
from airflow_provider_ha.jobs.job_records import who


log = logging.getLogger(__name__)

_NOT_RESTORABLE = (CheckpointError, ObjectMissingError, RecordCorruptError)  # storage answered: it is not there


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillRequest:
    """Request of a drill.

    :param drill_id: Id of the request. A drill of that id that has passed is found again; another one is done again.
    :param requested_by: For people.
    :param start_from: ``"savepoint"`` for the newest savepoint, else as for a restore: ``"latest"`` (checkpoints
        first), ``"checkpoint-<n>"``, ``"savepoint-<id>"`` or ``"before <time>"``.
    :param limits: How old it may be, and how long the drill may take.
    """

    drill_id: str
    requested_by: str
    start_from: str = SAVEPOINT
    limits: Limits = field(default_factory=Limits)
    options: ProofOptions = field(default_factory=ProofOptions)


@dataclass(frozen=True, slots=True)
class _Found:
    """Findings of a drill about its candidate.

    :param problems: Why it cannot be restored.
    """

    problems: tuple[str, ...] = ()
    proofs: Mapping[str, Proof] = field(default_factory=dict)


def drill(job: JobContext, request: DrillRequest, tell: Callable[[str], None] = log.info) -> Drill:
    """Drill a job, or find the drill of the request again. Returns its record, with any verdict.

    :param tell: Called with one line for each phase, when it begins.
    :raises UnknownJobError: There is no such job.
    :raises CheckpointMissingError: There is nothing to restore from.
    :raises StorageUnavailableError: Something could not be read, or the copy could not be made; nothing was recorded.
    """
    job.snapshot()  # an unknown job is refused as one
    records = DrillStore(job.store, job.keys)
    drill_id = records.next_id(request.drill_id)
    known = records.find(drill_id)
    if known is not None:
        log.info("drill %s of job %s is over already: %s", drill_id, job.job_id, known.verdict.value)
        return known
    began, watch = job.clock.now(), Stopwatch(job.clock)
    phases = Phases(watch, tell)
    choose = partial(_choose, job, request.start_from)
    with proof_place(job) as place, held(job, choose, by=f"drill {drill_id}") as name:
        phases.begin("choose", name)
        selection = select_checkpoint(job, start_from=name, fallback=False, depth="quick")
        found = _prove(job, request, selection, place, phases)
        watch.end()
        if found.problems and job.coordinator.find(pointer_path(job.paths, name)) is None:
            raise StorageUnavailableError(f"{name} of job {job.job_id!r} was removed while it was drilled")
    asked = dataclasses.replace(request, drill_id=drill_id)
    record = _record(job, asked, selection, found, watch, began=began)
    log.info("drill %s of job %s: %s %s", drill_id, job.job_id, record.verdict.value, record.reasons)
    return records.add(record)


def _choose(job: JobContext, start_from: str) -> str:
    """Return the name of what is to be drilled."""
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
            next_step="Take one with `spark-ha savepoint trigger`, or drill its newest checkpoint: start_from='latest'",
        )
    return f"{SAVEPOINT}-{listing.pointers[0].savepoint_id}"


def _prove(job: JobContext, request: DrillRequest, selection: Selection, place: Path, phases: Phases) -> _Found:
    chosen = selection.chosen
    if chosen is None:
        last = selection.candidates[-1]
        return _Found((f"{last.file or last.source}: {last.reason}",))
    directory = job.area.tree(chosen.directory)
    try:
        phases.begin("verify", "every byte is compared with the manifest")
        damaged = _damaged(job, chosen, directory)
        if damaged:
            return _Found(damaged)
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
        return _Found((error.message,))
    return _Found(proofs=proofs)


def _damaged(job: JobContext, chosen: Chosen, directory: Tree) -> tuple[str, ...]:
    """Compare every byte of a savepoint with its manifest; a pin has none."""
    if chosen.source != SAVEPOINT:
        return ()
    manifest = savepoint_store(job).load(chosen.source_id)
    return tuple(f"{item.path}: {item.reason}" for item in check_files(directory, manifest, digests=True))


def _record(
    job: JobContext, request: DrillRequest, selection: Selection, found: _Found, watch: Stopwatch, *, began: datetime
) -> Drill:
    candidate = selection.candidates[-1]
    age = (began - candidate.created_at).total_seconds()
    verdict, reasons = decide(request.limits, age, watch.total, found.problems, found.proofs)
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
        queries={query: _query(proof, candidate.cut[query]) for query, proof in found.proofs.items()},
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


class Phases:
    """One phase at a time. Not safe for several threads.

    :param watch: Measures them.
    :param tell: Called with one line for each, when it begins.
    """

    def __init__(self, watch: Stopwatch, tell: Callable[[str], None]) -> None:
        self._watch = watch
        self._tell = tell
        self._last_line = ""

    def begin(self, step: str, what: str) -> None:
        """End the phase that goes on and begin another one; the same one just goes on."""
        self._watch.begin(step)
        line = f"{step}: {what}"
        if line != self._last_line:
            self._last_line = line
            self._tell(line)

    def of_proof(self, now: ProofProgress) -> None:
        """Follow the proof of one query of the cut."""
        self.begin(now.step.value, f"query {now.query!r}, {now.doing}")
