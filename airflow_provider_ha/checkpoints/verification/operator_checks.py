"""Verifying what Spark recorded about the stateful operators: metadata, and the schemas of the state.

Invariant: what a release passes over is told, and does not block. Where an operator may be of the one layout or of the
other, and only one of them starts, the answer is open.
"""

from __future__ import annotations

from airflow_provider_ha.checkpoints.format.files import FileGoneError
from airflow_provider_ha.checkpoints.format.layout import STATE, numbers
from airflow_provider_ha.checkpoints.format.operator_metadata import (
    check_schemas_named,
    first_metadata,
    has_own_schema,
    names_schemas,
)
from airflow_provider_ha.checkpoints.format.operators import check_metadata
from airflow_provider_ha.checkpoints.format.pinned_conf import ENCODING
from airflow_provider_ha.checkpoints.verification.codes import Code
from airflow_provider_ha.checkpoints.verification.findings import Finding
from airflow_provider_ha.checkpoints.verification.report import Findings, Reason
from airflow_provider_ha.checkpoints.verification.subject import Subject
from airflow_provider_ha.errors import CheckpointCorruptError


_METADATA = "the metadata of the operator; Spark goes on without it"
_NAMED = "the metadata of the operator, and every schema file that it names"
_OPEN = "the metadata of the operator, which says whether Spark can go on without it"


def check_operators(subject: Subject, findings: Findings) -> None:
    """Report what is missing or bad of the operators' metadata."""
    base = subject.logs.next_base
    if base < 0:
        return
    # Spark reads what the planning of the next batch may have written, too.
    for lacks in operators_lack(subject, base, upcoming=1):
        findings.add(Finding(lacks.code, lacks.path, base, lacks.found, _NAMED, blocks=True))
    for operator in numbers(subject.directory, STATE):
        if not names_schemas(subject.directory, operator):
            _check_first(subject, operator, base, findings)


def operators_lack(subject: Subject, batch: int, *, upcoming: int = 0) -> list[Reason]:
    """Return why the operators that name their schemas cannot go on after *batch*; nothing when they can.

    :param upcoming: How many batches after it may have written metadata that counts.
    """
    return [
        reason
        for operator in numbers(subject.directory, STATE)
        if names_schemas(subject.directory, operator)
        for reason in _lacks(subject, operator, batch + upcoming)
    ]


def _lacks(subject: Subject, operator: int, batch: int) -> list[Reason]:
    try:
        check_schemas_named(subject.directory, operator, batch)
    except CheckpointCorruptError as error:
        return [Reason(Code.STATE_METADATA_CORRUPT, error.path, error.reason)]
    return []


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
        return  # a release before 4.0 planned that batch, and wrote none
    known = has_own_schema(subject.directory, operator)
    expected, blocks = (_METADATA, False) if known else (_OPEN, None)
    found = "it is not there"
    findings.add(Finding(Code.STATE_METADATA_CORRUPT, first_metadata(operator), None, found, expected, blocks=blocks))
