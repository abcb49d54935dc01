"""A proof for people: the answer, what Spark loaded of each operator and partition, and what it refused."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_provider_ha.checkpoints.proof.report import LoadedState, Proof, sentences
from airflow_provider_ha.checkpoints.verify.remediation import MEANINGS
from airflow_provider_ha.cli import console


_SHOWN_PARTITIONS = 12


def print_proof(proof: Proof) -> None:
    """Print what Spark itself said, below what the verification said."""
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
