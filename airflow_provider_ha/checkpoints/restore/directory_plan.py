"""Restore from a checkpoint directory of no known job: its content as a cut, and the plan.

Invariant: only reads, and the decision is the same as for every restore (``plan``). Only the directory is known: no
payloads of purged batches, no drain, no epochs. Facts that could not be queried are reported as unknown.

Invariants: only reads. The cut is the last committed batch, verified to the last byte; the batch planned after it is
recorded, so that exactly that batch is executed again. A directory whose query runs during the read is refused: two
queries would write to the same output.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone

from airflow_provider_ha.checkpoints.areas.working_records import readable
from airflow_provider_ha.checkpoints.model import QueryCut, QuerySink, SinkKind
from airflow_provider_ha.checkpoints.ownership import AdoptedCheckpoint
from airflow_provider_ha.checkpoints.plan_model import Candidate, RestorePlan
from airflow_provider_ha.checkpoints.restore.facts import AskKafka, ExternalQueries, RestoreCase, gather_facts
from airflow_provider_ha.checkpoints.restore.plan import RestoreChoices, plan_restore
from airflow_provider_ha.checkpoints.restore.select import RestoreSource
from airflow_provider_ha.checkpoints.sinks.file_sink import FileSink
from airflow_provider_ha.checkpoints.sources.input_files import look_for
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import COMMITS, progress
from airflow_provider_ha.checkpoints.spark.files import UnreadableError
from airflow_provider_ha.checkpoints.spark.metadata_log import NEVER, planned_at, read_query_id
from airflow_provider_ha.checkpoints.spark.places import output_place
from airflow_provider_ha.checkpoints.spark.releases import installed_version
from airflow_provider_ha.checkpoints.spark.tree import Tree
from airflow_provider_ha.checkpoints.verify.codes import Code
from airflow_provider_ha.checkpoints.verify.restorable import Verify, query_damage
from airflow_provider_ha.checkpoints.verify.verification import verify
from airflow_provider_ha.checkpoints.verify.verification_report import VerificationReport
from airflow_provider_ha.errors import (
    CheckpointCorruptError,
    CheckpointMissingError,
    JobStateError,
    StorageUnavailableError,
)


@dataclass(frozen=True, slots=True)
class DirectoryCut:
    """Content of a directory.

    :param cut: Its last committed batch, with its record and that of the batch planned after it.
    :param adopted: Its location, and the progress of its query.
    :param candidate: The same, for the plan.
    :param created_at: Commit time of the batch, if known.
    """

    cut: QueryCut
    adopted: AdoptedCheckpoint
    candidate: Candidate
    created_at: datetime


def look(query: str, directory: Tree, place: str, sink: QuerySink, verify: Verify) -> DirectoryCut:
    """Read the directory of a query. Changes nothing.

    :raises CheckpointMissingError: Its query has not committed a batch yet.
    :raises CheckpointCorruptError: Its last committed batch cannot be restored, with the file.
    :raises JobStateError: Its query is running.
    """
    before = progress(directory)
    if before.committed < 0:
        raise CheckpointMissingError(
            f"query {query!r} has not committed a batch in {place}",
            next_step="The job cannot adopt it: submit the job with start_from='fresh'",
            options=("start_from",),
        )
    damage = query_damage(directory, query, before.committed, verify)
    if damage is not None:
        raise CheckpointCorruptError(
            damage.path, damage.reason, next_step=f"List the restorable batches: `spark-ha checkpoint verify {place}`"
        )
    entries = tuple(readable(directory, after=before.committed - 1))
    created_at = _committed_at(directory, before.committed)
    if progress(directory) != before:
        raise JobStateError(
            f"query {query!r} is running in {place}: it progressed during the read",
            next_step="Stop it permanently first: two queries would write to one output",
        )
    adopted = AdoptedCheckpoint(
        path=place, query_id=read_query_id(directory), planned=before.planned, committed=before.committed
    )
    candidate = Candidate(source=place, cut={query: before.committed}, created_at=created_at, accepted=True)
    return DirectoryCut(QueryCut(batch=before.committed, sink=sink, entries=entries), adopted, candidate, created_at)


def _committed_at(directory: Tree, batch: int) -> datetime:
    """Return the commit time of a batch; where files do not keep their writer's time, its planning time."""
    if directory.local_path is None:
        return planned_at(directory, batch) or NEVER
    try:
        entry = directory.local_path / COMMITS / str(batch)
        return datetime.fromtimestamp(entry.stat().st_mtime, tz=timezone.utc)
    except OSError as error:
        raise UnreadableError(f"{COMMITS}/{batch}", error) from error


def plan_directory(
    query: str,
    directory: Tree,
    *,
    sink: QuerySink,
    now: datetime,
    ask_kafka: AskKafka,
    batch: int | None = None,
    accept_unverified: Collection[str] = (),
    repeatable: bool = False,
) -> RestorePlan:
    """Return the plan to continue from a checkpoint into the same output. Changes nothing.

    :param sink: The query's sink, as named by the user.
    :param batch: The cut; the newest restorable batch by default.
    :param accept_unverified: Queries for which unverified facts are accepted.
    :param repeatable: Whether a repeated batch leaves the output unchanged.
    :raises CheckpointMissingError: The batch does not exist, or no batch is restorable; the message has the reasons.
    :raises JobStateError: The query is running.
    """
    before = progress(directory)
    report = verify(directory, depth="full")
    candidates = tuple(_candidates(query, directory, report, batch))
    cut = _chosen(directory, report, candidates, batch)
    entries = tuple(readable(directory, after=cut - 1))
    adopted = AdoptedCheckpoint(
        path=str(directory), query_id=read_query_id(directory), planned=before.planned, committed=before.committed
    )
    chosen = RestoreSource(
        source="path",
        source_id=str(directory),
        directory=str(directory),
        queries={query: QueryCut(batch=cut, sink=sink, entries=entries)},
        run=0,
        epoch=0,
        graph="",
        spark_version=installed_version(),
        created_at=candidates[-1].created_at,
    )
    facts = gather_facts(
        RestoreCase(
            chosen=chosen,
            at=now,
            directories={query: directory},
            candidates=candidates,
            adopted={query: adopted},
            external=ExternalQueries(ask_kafka, look_for),
        )
    )
    if progress(directory) != before:
        raise JobStateError(
            f"query {query!r} is running in {directory}: it progressed during the read",
            next_step="Stop it first: two queries would write to one output",
        )
    declared = (query,) if repeatable else ()
    return plan_restore(
        facts, RestoreChoices(job_id="", source_job="", accept_unverified=accept_unverified, repeatable=declared)
    )


def sink_at(said: str) -> QuerySink:
    """Return the file sink whose output directory is *said*, with the highest batch in its log.

    :param said: A path, or a URI of S3.
    :raises ConfigurationError: It is neither.
    """
    path = output_place(said)
    return QuerySink(kind=SinkKind.FILE, path=path, max_batch=FileSink(path).reached())


def _candidates(query: str, directory: Tree, report: VerificationReport, batch: int | None) -> Iterator[Candidate]:
    """Yield the examined cuts, newest first, the chosen one last; empty after a failed read."""
    for verdict in reversed(report.batches):
        if batch is not None and verdict.batch != batch:
            continue
        taken = planned_at(directory, verdict.batch)
        first = verdict.reasons[0] if verdict.reasons else None
        yield Candidate(
            source=f"batch-{verdict.batch}",
            number=verdict.batch,
            cut={} if taken is None else {query: verdict.batch},
            created_at=taken or NEVER,
            accepted=verdict.restorable,
            file=first.path if first else None,
            reason=first.found if first else "",
        )
        if verdict.restorable:
            return


def _chosen(directory: Tree, report: VerificationReport, candidates: tuple[Candidate, ...], batch: int | None) -> int:
    last = candidates[-1] if candidates else None
    if last is not None and last.accepted and last.number is not None:
        return last.number
    for finding in report.findings:
        if finding.code is Code.UNREADABLE:
            raise StorageUnavailableError(
                f"{directory} could not be read: {finding.path}: {finding.message}",
                next_step="Check the path and its permissions, and try again",
            )
    what = "no batch" if batch is None else f"no batch {batch}"
    reasons = "; ".join(f"{item.source}: {item.file}: {item.reason}" for item in candidates) or "neither log has it"
    raise CheckpointMissingError(
        f"checkpoint {directory} has {what} that can be restored: {reasons}",
        next_step="See which batches can be restored with `spark-ha checkpoint verify`",
    )
