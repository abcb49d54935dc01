"""Checks of the state: stores, records about operators, and removed state.

Invariant: the file that Spark tries first decides, unless the release falls back to an older snapshot.

Invariant: problems that a release ignores are reported as non-blocking. If an operator may have either of two layouts
and only one of them starts, the answer is unknown.

A query without state has no state directory, and neither has one whose state directory was removed. Operators are
numbered without gaps, so a missing operator below another is noticed; the files do not show whether an operator with a
higher number ever existed. On a local file system, directory times do: Spark creates the content of a directory when
the query begins, and afterwards writes only below it. A directory younger than all its content was changed since.

Invariant: a time proves nothing. It makes the answer unknown, never no. Without times, the answer is unknown if all
state is missing, and single operators are not judged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from airflow_provider_ha.checkpoints.spark import files
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import STATE, numbers
from airflow_provider_ha.checkpoints.spark.closure import NeededVersion, StateReader
from airflow_provider_ha.checkpoints.spark.files import FileGoneError, names
from airflow_provider_ha.checkpoints.spark.metadata_log import CommitsEntry, OffsetsEntry
from airflow_provider_ha.checkpoints.spark.operators import (
    check_metadata,
    check_schemas_named,
    first_metadata,
    has_own_schema,
    names_schemas,
)
from airflow_provider_ha.checkpoints.spark.releases import ENCODING, Release
from airflow_provider_ha.checkpoints.spark.sst_table import TableDataError
from airflow_provider_ha.checkpoints.spark.state_content import ChecksumMismatchError
from airflow_provider_ha.checkpoints.spark.state_store import Chain
from airflow_provider_ha.checkpoints.spark.tree import Tree
from airflow_provider_ha.checkpoints.verify.codes import Code
from airflow_provider_ha.checkpoints.verify.subject import (
    CheckpointLogs,
    Statefulness,
    VerificationSubject,
    has_state_directory,
)
from airflow_provider_ha.checkpoints.verify.verification_report import Finding, Findings, Reason
from airflow_provider_ha.errors import CheckpointCorruptError


_METADATA = "the metadata of the operator; Spark continues without it"
_NAMED = "the metadata of the operator, and every schema file that it names"
_OPEN = "the metadata of the operator, which shows whether Spark can continue without it"


def check_operators(subject: VerificationSubject, findings: Findings) -> None:
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


def naming_operators(subject: VerificationSubject) -> list[int]:
    """Return the operators whose metadata names their schemas."""
    return [number for number in numbers(subject.directory, STATE) if names_schemas(subject.directory, number)]


def operators_lack(subject: VerificationSubject, operators: Iterable[int], batch: int) -> Iterator[Reason]:
    """Yield reasons why *operators*, which name their schemas, cannot continue after *batch*."""
    for operator in operators:
        try:
            check_schemas_named(subject.directory, operator, batch)
        except CheckpointCorruptError as error:  # noqa: PERF203  # continue with the next operator
            yield Reason(Code.STATE_METADATA_CORRUPT, error.path, error.reason)


def _check_named(subject: VerificationSubject, operator: int, base: int, findings: Findings) -> None:
    try:
        # Spark also reads files that the planning of the next batch may have written.
        for path in check_schemas_named(subject.directory, operator, base + 1):
            found, expected = "it is not there", "the schema that the operator's metadata names; a join writes it again"
            findings.add(Finding(Code.STATE_METADATA_CORRUPT, path, None, found, expected))
    except CheckpointCorruptError as error:
        findings.add(Finding(Code.STATE_METADATA_CORRUPT, error.path, base, error.reason, _NAMED, blocks=True))


def _check_first(subject: VerificationSubject, operator: int, base: int, findings: Findings) -> None:
    path = first_metadata(operator)
    try:
        check_metadata(subject.directory, path)
    except FileGoneError:
        _check_gone(subject, operator, base, findings)
    except CheckpointCorruptError as error:
        findings.add(Finding(Code.STATE_METADATA_CORRUPT, path, None, error.reason, _METADATA))


def _check_gone(subject: VerificationSubject, operator: int, base: int, findings: Findings) -> None:
    last = subject.logs.offsets.get(base)
    if last is None or ENCODING not in last.conf:
        return  # a release before 4.0 planned that batch, and wrote no metadata
    known = has_own_schema(subject.directory, operator)
    expected, blocks = (_METADATA, False) if known else (_OPEN, None)
    found = "it is not there"
    findings.add(Finding(Code.STATE_METADATA_CORRUPT, first_metadata(operator), None, found, expected, blocks=blocks))


_GONE = "it is not there, and the logs do not show whether the query keeps state"
_NO_STATE = "no directory, for a query without state; `--depth prove` with the application decides"
_EMPTIED = "it is empty: left by a start that failed, or emptied"
_CHANGED = "files were removed from it, or added to it, after the last state was written"
_OPERATORS = "every stateful operator of the query; `--depth prove` with the application decides"


def check_removals(subject: VerificationSubject, removed: list[Reason], findings: Findings) -> None:
    """Report that the state, or a part without a reference to it, may have been removed.

    :param removed: Result of :func:`removals` for the checkpoint.
    """
    if subject.logs.next_base < 0:
        return
    if has_state_directory(subject.directory):
        for lacks in removed:
            findings.add(Finding(lacks.code, lacks.path, None, lacks.found, _OPERATORS, blocks=None))
    elif subject.kind is Statefulness.UNKNOWN:
        # Where no commit is left, the state may have been removed with the commits.
        # guard: lost-commits-explain-lost-state
        untouched = subject.directory.keeps_times and subject.logs.commits and not removed
        # guard: removed-state-was-never-there
        findings.add(Finding(Code.STATE_UNKNOWN, STATE, None, _GONE, _NO_STATE, blocks=False if untouched else None))


def removals(subject: VerificationSubject) -> list[Reason]:
    """Return the apparent removals from a local checkpoint of format 1, judged by file times."""
    root = subject.directory
    if not root.keeps_times or any(entry.state_ids for entry in subject.logs.commits.values()):
        return []
    if not has_state_directory(root):
        gone = subject.kind is Statefulness.UNKNOWN and _is_youngest(root, "", names(root))
        return [Reason(Code.STATE_UNKNOWN, STATE, _GONE)] if gone else []
    emptied = [f"{STATE}/{number}" for number in numbers(root, STATE) if not names(root, f"{STATE}/{number}")]
    if emptied:
        return [Reason(Code.STATE_UNKNOWN, path, _EMPTIED) for path in emptied]
    partitions = (
        f"{STATE}/{operator}/{partition}"
        for operator in numbers(root, STATE)
        for partition in numbers(root, f"{STATE}/{operator}")
    )
    return [Reason(Code.STATE_UNKNOWN, STATE, _CHANGED)] if _is_youngest(root, STATE, partitions) else []


def _is_youngest(root: Tree, place: str, inner: Iterable[str]) -> bool:
    """Whether *place* was changed after all its content; unavailable times prove nothing."""
    own = root.changed(place)
    return own is not None and all((changed := root.changed(each)) is not None and changed < own for each in inner)


# Java's writeUTF of the version, then the schemas of key and value as JSON.
_STATE_DIRECTORY = "the state of every stateful operator"
_SCHEMA_HEAD = re.compile(rb"\x00\x02v[1-9]")
_EXPECTED = {
    Code.STATE_MISSING: "a file of",
    Code.STATE_CORRUPT: "a complete file of",
    Code.CHECKSUM_MISMATCH: "a file that matches its checksum, of",
}


def check_state(
    reader: StateReader, offsets: OffsetsEntry, commits: CommitsEntry, release: Release, findings: Findings
) -> None:
    """Report every store that cannot load the state after the batch of these entries."""
    try:
        for need in reader.stores_needed(offsets, commits):
            _check_store(reader, need, commits.batch, release, findings)
    except CheckpointCorruptError as error:
        _add(findings, error, commits.batch, blocks=True)


def state_lacks(reader: StateReader, offsets: OffsetsEntry, commits: CommitsEntry) -> list[Reason]:
    """Return the reasons why the state after the batch of these entries cannot be loaded."""
    found: list[Reason] = []
    try:
        for need in reader.stores_needed(offsets, commits):
            error = reader.lacks(need)
            if error is not None:
                found.append(Reason(_code(error), error.path, error.reason))
    except CheckpointCorruptError as error:
        found.append(Reason(_code(error), error.path, error.reason))
    return found


def check_state_directory(directory: Tree, logs: CheckpointLogs, kind: Statefulness, findings: Findings) -> None:
    """Report that a query with state has no state directory."""
    if logs.next_base < 0 or has_state_directory(directory):
        return
    for lacks in state_directory_lacks(directory, kind):
        findings.add(Finding(lacks.code, lacks.path, logs.next_base, lacks.found, _STATE_DIRECTORY, blocks=True))


def state_directory_lacks(directory: Tree, kind: Statefulness) -> list[Reason]:
    """Return the reason when a query with state has no state directory."""
    if kind is not Statefulness.STATEFUL or has_state_directory(directory):
        return []
    return [Reason(Code.STATE_MISSING, STATE, "it is not there, although the logs belong to a query with state")]


def check_schemas(directory: Tree, findings: Findings) -> None:
    """Report unreadable state schemas. Spark writes a missing one again."""
    for operator in numbers(directory, STATE):
        place = f"{STATE}/{operator}/0"
        inner = [f"{place}/{name}" for name in files.names(directory, place) if name[:1].isalpha()]
        for path in (f"{store}/_metadata/schema" for store in [place, *inner]):
            if files.exists(directory, path) and not _is_schema(files.read(directory, path)):
                found, expected = (
                    "it is truncated or garbled",
                    "a state schema or no file: Spark writes a missing one again",
                )
                findings.add(Finding(Code.STATE_METADATA_CORRUPT, path, None, found, expected, blocks=True))


def _is_schema(data: bytes) -> bool:
    return bool(_SCHEMA_HEAD.match(data)) and data.count(b'"type":"struct"') > 1 and data.endswith(b"]}")


def _check_store(reader: StateReader, need: NeededVersion, batch: int, release: Release, findings: Findings) -> None:
    chains: list[Chain] = []
    try:
        chains = need.ways()
        reader.whole(chains[0])
    except CheckpointCorruptError as error:
        older = _goes_on(error, release) and any(_is_whole(reader, find) for find in (lambda: chains[1:], need.repairs))
        _add(findings, error, batch, blocks=not older)
        if older:
            found = "it is bad, but this release continues from an older snapshot and the changes since"
            findings.add(Finding(Code.STATE_FALLBACK, error.path, batch, found, "a whole file"))


def _goes_on(error: CheckpointCorruptError, release: Release) -> bool:
    """Whether a release falls back to older files on *error*."""
    # Spark does not treat a directory in the place of a snapshot as a broken snapshot.
    if isinstance(error, files.NotAFileError) and error.path.endswith(".snapshot"):
        return release.skips_directories
    # Bad rows appear when they are read: the store is open by then, so there is no fallback.
    return release.falls_back and not isinstance(error, TableDataError)


def _is_whole(reader: StateReader, find: Callable[[], list[Chain]]) -> bool:
    try:
        chains = find()
        return bool(chains and reader.first_whole(chains))
    except CheckpointCorruptError:
        return False


def _add(findings: Findings, error: CheckpointCorruptError, batch: int, *, blocks: bool) -> None:
    expected = f"{_EXPECTED[_code(error)]} state version {batch + 1}, which batch {batch} wrote"
    findings.add(Finding(_code(error), error.path, batch, error.reason, expected, blocks=blocks))


def _code(error: CheckpointCorruptError) -> Code:
    if isinstance(error, files.FileGoneError):
        return Code.STATE_MISSING
    return Code.CHECKSUM_MISMATCH if isinstance(error, ChecksumMismatchError) else Code.STATE_CORRUPT
