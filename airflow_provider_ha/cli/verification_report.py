"""Verification for people: the result, the batches in ranges, and the findings with their meanings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from airflow_provider_ha.checkpoints.verify.codes import MEANINGS
from airflow_provider_ha.checkpoints.verify.proof_result import LoadedState, Proof, sentences
from airflow_provider_ha.checkpoints.verify.verification_report import BatchVerdict, Reason, VerificationReport
from airflow_provider_ha.cli import console


_SHOWN_PARTITIONS = 12


_SHOWN_REASONS = 3


def print_report(path: str, report: VerificationReport) -> None:
    """Print the report about the checkpoint at *path*."""
    sentence = {
        True: f"Spark can start from {path}",
        False: f"Spark cannot start from {path}",
        None: f"{path} could not be judged",
    }[report.startable]
    console.out.print(sentence, style="bold", markup=False)
    if report.restorable:
        console.out.print(
            f"it could be restored to {len(report.restorable)} batch(es), the latest is {report.latest_restorable}"
        )
    if report.sink is not None:
        has = "no batch" if report.sink.max_batch < 0 else f"every batch up to {report.sink.max_batch}"
        console.out.print(f"the log of the sink {report.sink.path} has {has}", markup=False)
    if report.batches:
        console.print_table(("BATCHES", "RESTORABLE", "LACKS"), batch_rows(report.batches), empty="")
    console.print_table(
        ("FINDING", "BLOCKS", "BATCH", "FILE", "EXPECTED", "FOUND"),
        (
            [item.code.value, _word(item.blocks), item.batch, item.path, item.expected or None, item.found]
            for item in report.findings
        ),
        empty="no problem was found",
    )
    for code in dict.fromkeys(item.code for item in report.findings):
        console.out.print(f"\n{code.value}: {MEANINGS[code].what}", markup=False)
        console.out.print(f"Next: {MEANINGS[code].next_step}", markup=False)


def batch_rows(batches: Iterable[BatchVerdict]) -> Iterator[tuple[str, str, str | None]]:
    """Yield (batches, restorable, missing requirements): neighbours with the same ones share a row."""
    for lacks, group in groupby(batches, key=lambda verdict: _lacks_text(verdict.reasons)):
        yield _range([verdict.batch for verdict in group]), _word(not lacks), lacks or None


def _range(batches: list[int]) -> str:
    first, last = batches[0], batches[-1]
    sparse = f" ({len(batches)} of them)" if last - first >= len(batches) else ""
    return str(first) if first == last else f"{first}-{last}{sparse}"


def _lacks_text(reasons: tuple[Reason, ...]) -> str:
    shown = ", ".join(f"{reason.code.value} {reason.path}" for reason in reasons[:_SHOWN_REASONS])
    more = len(reasons) - _SHOWN_REASONS
    return f"{shown} and {more} more" if more > 0 else shown


def _word(value: bool | None) -> str:  # a value to print
    return {True: "yes", False: "no", None: "unknown"}[value]


def print_proof(proof: Proof) -> None:
    """Print Spark's own results, below the verification."""
    answer, *steps = sentences(proof)
    console.out.print(f"\n{answer}", style="bold", markup=False)
    for step in steps:
        console.out.print(step, markup=False)
    if proof.state:
        console.print_table(("OPERATOR", "STATE", "ROWS", "BY PARTITION"), _rows(proof.state), empty="")
    if proof.started is not None:
        rows = ", ".join(map(str, proof.started.state_rows)) or "none"
        console.out.print(
            f"query {proof.started.name} committed batch {proof.started.batch}; rows of state: {rows}", markup=False
        )
    for finding in proof.findings:
        console.out.print(f"\n{finding.code.value} {finding.path}: {finding.message}", markup=False)
        console.out.print(MEANINGS[finding.code].what, markup=False)
        console.out.print(f"Next: {finding.next_step}", markup=False)


def _rows(state: tuple[LoadedState, ...]) -> Iterator[tuple[object, ...]]:
    for part in state:
        shown = " ".join(map(str, part.rows[:_SHOWN_PARTITIONS]))
        more = len(part.rows) - _SHOWN_PARTITIONS
        operator = f"{part.reading.operator} {part.reading.operator_name}".strip()
        yield operator, part.reading.title, sum(part.rows), f"{shown} and {more} more" if more > 0 else shown
