"""The report of a verification, and the collector of its findings.

Invariant: ``startable`` is ``False`` exactly when a finding that blocks the start was collected; ``None`` when a file
that matters could not be read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow_provider_ha.checkpoints.trees.tree import Tree
from airflow_provider_ha.checkpoints.verify.codes import Code
from airflow_provider_ha.checkpoints.verify.findings import Finding


# Reasons that leave a batch undecided: the files do not show the answer.
_OPEN = frozenset({Code.STATE_UNKNOWN, Code.OFFSETS_SPARSE})


@dataclass(frozen=True, slots=True)
class Reason:
    """One requirement that a batch lacks.

    :param code: Code of the finding.
    :param path: The file, relative to the checkpoint.
    :param found: The damage, as a clause without a final stop.
    """

    code: Code
    path: str
    found: str

    def to_json(self) -> dict[str, str]:
        """The reason in the command's JSON."""
        return {"code": self.code.value, "path": self.path, "found": self.found}


@dataclass(frozen=True, slots=True)
class BatchVerdict:
    """Verdict on a restore to one batch.

    :param batch: Its id, from the offset log or the commit log.
    :param reasons: Reasons against a restore; empty when it is restorable.
    """

    batch: int
    reasons: tuple[Reason, ...]

    @property
    def restorable(self) -> bool:
        """Whether the directory can be restored to it."""
        return not self.reasons

    @property
    def provable(self) -> bool:
        """Whether it can be restored to, or only a check with Spark can decide."""
        return all(reason.code in _OPEN for reason in self.reasons)

    def to_json(self) -> dict[str, Any]:
        """The verdict in the command's JSON."""
        return {
            "batch": self.batch,
            "restorable": self.restorable,
            "reasons": [reason.to_json() for reason in self.reasons],
        }


@dataclass(frozen=True, slots=True)
class SinkState:
    """State of the file sink's log that was judged with the checkpoint.

    :param path: Its output directory.
    :param max_batch: Its highest batch; -1 when empty.
    """

    path: Tree
    max_batch: int


@dataclass(frozen=True, slots=True)
class Report:
    """Answer to "can Spark start from this directory, and continue with the right state?".

    :param startable: ``True``, ``False``, or ``None`` when the directory is missing or could not be read.
    :param restorable: All restorable batch ids, ascending.
    :param findings: First those that prevent a start of Spark, then the others, each in the order of the checks.
    :param planned: L; -1 without planned batches.
    :param committed: C; -1 without committed batches.
    :param batches: Verdicts on all batches in the offset log or the commit log, ascending. A sink ahead or behind does
        not change them: the restore reconciles both.
    :param sink: The file sink; ``None`` when none was named, or it could not be read.
    """

    startable: bool | None
    restorable: list[int]
    findings: tuple[Finding, ...]
    planned: int = -1
    committed: int = -1
    batches: tuple[BatchVerdict, ...] = ()
    sink: SinkState | None = None

    @property
    def latest_restorable(self) -> int | None:
        """The newest restorable batch; ``None`` if there is none."""
        return self.restorable[-1] if self.restorable else None

    @property
    def provable(self) -> list[int]:
        """All batch ids that a check with Spark can decide, ascending."""
        return [verdict.batch for verdict in self.batches if verdict.provable]

    def to_json(self) -> dict[str, Any]:
        """The report in the JSON of ``spark-ha checkpoint verify --json``."""
        return {
            "startable": self.startable,
            "restorable": self.restorable,
            "latest_restorable": self.latest_restorable,
            "planned": self.planned,
            "committed": self.committed,
            "sink": self.sink and {"path": str(self.sink.path), "max_batch": self.sink.max_batch},
            "batches": [batch.to_json() for batch in self.batches],
            "findings": [finding.to_json() for finding in self.findings],
        }


class Findings:
    """Collector of findings without duplicates."""

    def __init__(self) -> None:
        self._found: dict[tuple[Code, str], Finding] = {}

    @property
    def blocked(self) -> bool:
        """Whether any finding prevents a start of Spark with the right state."""
        return any(finding.blocks for finding in self._found.values())

    @property
    def open(self) -> bool:
        """Whether the effect of any finding on a start is unknown."""
        return any(finding.blocks is None for finding in self._found.values())

    def add(self, finding: Finding) -> None:
        """Keep a finding: of several with one code and path the first, unless only a later one blocks the start."""
        key = (finding.code, finding.path)
        known = self._found.get(key)
        if known is None or (finding.blocks and not known.blocks):
            self._found[key] = finding

    def all(self) -> tuple[Finding, ...]:
        """Return the findings; those that prevent a start of Spark come first."""
        return tuple(sorted(self._found.values(), key=lambda finding: finding.blocks is False))
