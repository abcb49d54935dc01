"""Verification of a checkpoint directory or a savepoint, with Spark's own result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_ha.api.documents.view import Text, View, shows
from airflow_provider_ha.checkpoints.verify.proof_protocol import StateReading
from airflow_provider_ha.checkpoints.verify.proof_result import LoadedState, Proof, ProofOutcome
from airflow_provider_ha.checkpoints.verify.verification_report import (
    BatchVerdict,
    Finding,
    Reason,
    SinkLogState,
    VerificationReport,
)


if TYPE_CHECKING:
    from airflow_provider_ha.checkpoints.store.savepoints.savepoint_report import SavepointReport


@shows(Reason, "code path found")
class ReasonView(View):
    """One thing that a batch needs and lacks."""


@shows(BatchVerdict, "batch restorable reasons", reasons=tuple[ReasonView, ...])
class BatchView(View):
    """One batch in the offset log or the commit log."""


@shows(SinkLogState, "path max_batch", path=Text)
class SinkView(View):
    """The file sink that was judged together with the checkpoint."""


@shows(Finding, "code path batch message expected found blocks meaning next_step")
class FindingView(View):
    """One thing that is wrong, or worth knowing."""


@shows(StateReading, "operator operator_name store kind variable partitions rows", partitions=tuple[int, ...], rows=int)
class LoadedStateView(View):
    """The rows that Spark read from a store, a variable or a set of timers.

    :param partitions: Rows per partition.
    :param rows: Rows in total.
    """


class LoadedView(View):
    """Whether Spark loaded the whole state of the batch.

    :param outcome: ``proven``, ``refuted``, ``unknown``, ``nothing`` (a query without state) or ``not_asked``.
    :param reason: Why it is not proven; empty when it is.
    :param state: The loaded state, in the order of the operators.
    """

    outcome: ProofOutcome
    reason: str
    state: tuple[LoadedStateView, ...]


class StartedQueryView(View):
    """The actions of the query on a copy of the checkpoint.

    :param query: Its name.
    :param batch: The batch that it committed.
    :param state_rows: Rows of state per stateful operator after the batch.
    """

    query: str
    batch: int
    state_rows: tuple[int, ...]


class StartedView(View):
    """Whether Spark executed the next batch, without input and without a sink.

    :param outcome: ``proven``, ``refuted``, ``unknown``, ``nothing`` or ``not_asked`` (without an application, or after
        an earlier step failed).
    :param reason: Why it is not proven; empty when it is.
    :param query: The actions of the query; ``null`` when it did not commit.
    """

    outcome: ProofOutcome
    reason: str
    query: StartedQueryView | None


class ProofView(View):
    """Spark's answer about one batch.

    :param proven: ``true``, ``false`` when Spark refused or the batch is not restorable, ``null`` when there was no
        answer.
    :param batch: The batch; ``null`` when the checkpoint could not be read.
    :param loaded: Whether Spark loaded the state.
    :param started: Whether Spark started the query on it.
    :param findings: ``LOAD_REFUSED``, ``START_REFUSED`` or ``NOT_PROVEN``.
    """

    proven: bool | None
    batch: int | None
    spark_version: str
    seconds: float
    loaded: LoadedView
    started: StartedView
    findings: tuple[FindingView, ...]


@shows(
    VerificationReport,
    "startable restorable latest_restorable planned committed sink batches findings",
    sink=SinkView | None,
    batches=tuple[BatchView, ...],
    findings=tuple[FindingView, ...],
)
class VerificationView(View):
    """Whether Spark can start from a checkpoint directory, and the batches to which it can be restored."""


class ProvenVerificationView(VerificationView):
    """A verification with ``--depth prove``: one key more.

    :param proof: Spark's answer; the exit code is that of its ``proven``.
    """

    proof: ProofView


def proven_view(proof: Proof) -> ProvenVerificationView:
    """Return what the verification found, and beside it what Spark said."""
    return ProvenVerificationView.of(proof.verification, proof=proof_view(proof))


def proof_view(proof: Proof) -> ProofView:
    """Return what Spark said."""
    started = proof.started
    query = StartedQueryView.of(started, query=started.name) if started is not None else None
    return ProofView.of(
        proof,
        seconds=round(proof.seconds, 1),
        loaded=LoadedView.of(proof.loading, state=tuple(_loaded(part) for part in proof.state)),
        started=StartedView.of(proof.starting, query=query),
    )


def _loaded(part: LoadedState) -> LoadedStateView:
    return LoadedStateView.of(part.reading, partitions=part.rows, rows=sum(part.rows))


class WrongFileView(View):
    """One file that is not as the manifest records.

    :param path: Relative to the savepoint.
    :param message: The difference from the manifest.
    """

    path: str
    message: str


class SavedQueryView(View):
    """One query of a savepoint.

    :param batch: Its batch; -1 when it had committed none.
    :param restorable: Whether it can be restored to that batch; ``null`` when something could not be read.
    :param findings: The problems of this batch alone, also files that could not be read. Empty when it can be restored.
    :param report: The verification of its whole directory, as ``checkpoint verify --json`` prints it: its findings may
        be about other batches.
    """

    batch: int
    restorable: bool | None
    findings: tuple[ReasonView, ...]
    report: VerificationView


class SavepointVerificationView(View):
    """A savepoint that was verified.

    :param savepoint_id: Its id.
    :param job_id: The managed job that it was taken of; empty when it was taken of any other checkpoint.
    :param location: Its path, or its URI.
    :param restorable: Whether it can be restored completely; ``null`` if parts could not be read.
    :param shares_inodes: Whether its files are hard links of live ones.
    :param digested: Whether every file has a digest.
    :param not_digested: Number of files that were compared by size only.
    :param files: Files that differ from the manifest. Every byte is compared; of a savepoint at a URI of S3, the size
        and the ETag of each object.
    :param queries: Query -> its judgement.
    """

    savepoint_id: str
    job_id: str
    location: str
    restorable: bool | None
    shares_inodes: bool
    digested: bool
    not_digested: int
    files: tuple[WrongFileView, ...]
    queries: dict[str, SavedQueryView]


def savepoint_verification(report: SavepointReport) -> SavepointVerificationView:
    """Return what a verification of a savepoint found."""
    stored, savepoint = report.stored, report.stored.savepoint
    return SavepointVerificationView.of(
        savepoint,
        location=stored.location,
        restorable=report.restorable,
        not_digested=report.not_digested,
        files=tuple(WrongFileView(path=problem.path, message=problem.reason) for problem in report.files),
        queries={
            query: SavedQueryView.of(found.judgement, restorable=found.judgement.answer, report=found.report)
            for query, found in report.queries.items()
        },
    )
