"""Checks of Spark's records about stateful operators: metadata and state schemas.

Invariant: problems that a release ignores are reported as non-blocking. If an operator may have either of two layouts
and only one of them starts, the answer is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from airflow_provider_ha.checkpoints.format.layout import STATE, numbers
from airflow_provider_ha.checkpoints.format.operator_metadata import (
    check_schemas_named,
    first_metadata,
    has_own_schema,
    names_schemas,
)
from airflow_provider_ha.checkpoints.format.operators import check_metadata
from airflow_provider_ha.checkpoints.format.pinned_conf import ENCODING
from airflow_provider_ha.checkpoints.trees.files import FileGoneError
from airflow_provider_ha.checkpoints.verify.codes import Code
from airflow_provider_ha.checkpoints.verify.findings import Finding
from airflow_provider_ha.checkpoints.verify.report import Findings, Reason
from airflow_provider_ha.checkpoints.verify.subject import Subject
from airflow_provider_ha.errors import CheckpointCorruptError


_METADATA = "the metadata of the operator; Spark continues without it"
_NAMED = "the metadata of the operator, and every schema file that it names"
_OPEN = "the metadata of the operator, which shows whether Spark can continue without it"


def check_operators(subject: Subject, findings: Findings) -> None:
    """Report missing or bad operator metadata."""
    base = subject.logs.next_base
    if base < 0:
        return
    for operator in numbers(subject.directory, STATE):
        if not numbers(subject.directory, f"{STATE}/{operator}"):
            continue  # reported elsewhere: it has no state
        if names_schemas(subject.directory, operator):
            _check_named(subject, operator, base, findings)
        else:
            _check_first(subject, operator, base, findings)


def naming_operators(subject: Subject) -> list[int]:
    """Return the operators whose metadata names their schemas."""
    return [number for number in numbers(subject.directory, STATE) if names_schemas(subject.directory, number)]


def operators_lack(subject: Subject, operators: Iterable[int], batch: int) -> Iterator[Reason]:
    """Yield reasons why *operators*, which name their schemas, cannot continue after *batch*."""
    for operator in operators:
        try:
            check_schemas_named(subject.directory, operator, batch)
        except CheckpointCorruptError as error:  # noqa: PERF203  # continue with the next operator
            yield Reason(Code.STATE_METADATA_CORRUPT, error.path, error.reason)


def _check_named(subject: Subject, operator: int, base: int, findings: Findings) -> None:
    try:
        # Spark also reads files that the planning of the next batch may have written.
        for path in check_schemas_named(subject.directory, operator, base + 1):
            found, expected = "it is not there", "the schema that the operator's metadata names; a join writes it again"
            findings.add(Finding(Code.STATE_METADATA_CORRUPT, path, None, found, expected))
    except CheckpointCorruptError as error:
        findings.add(Finding(Code.STATE_METADATA_CORRUPT, error.path, base, error.reason, _NAMED, blocks=True))


def _check_first(subject: Subject, operator: int, base: int, findings: Findings) -> None:
    path = first_metadata(operator)
    try:
        check_metadata(subject.directory, path)
    except FileGoneError:
        _check_gone(subject, operator, base, findings)
    except CheckpointCorruptError as error:
        findings.add(Finding(Code.STATE_METADATA_CORRUPT, path, None, error.reason, _METADATA))


def _check_gone(subject: Subject, operator: int, base: int, findings: Findings) -> None:
    last = subject.logs.offsets.get(base)
    if last is None or ENCODING not in last.conf:
        return  # a release before 4.0 planned that batch, and wrote no metadata
    known = has_own_schema(subject.directory, operator)
    expected, blocks = (_METADATA, False) if known else (_OPEN, None)
    found = "it is not there"
    findings.add(Finding(Code.STATE_METADATA_CORRUPT, first_metadata(operator), None, found, expected, blocks=blocks))
