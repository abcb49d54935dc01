"""The report of a verification, and how findings are collected for it.

Invariant: ``startable`` is ``False`` exactly when a finding that blocks the start was collected; ``None`` when
something that matters could not be read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow_provider_ha.checkpoints.trees.tree import Tree
from airflow_provider_ha.checkpoints.verify.codes import Code
from airflow_provider_ha.checkpoints.verify.findings import Finding


# What the files do not tell: reasons that neither condemn a batch nor clear it.
_OPEN = frozenset({Code.STATE_UNKNOWN, Code.OFFSETS_SPARSE})


@dataclass(frozen=True, slots=True)
class Reason:
    """One thing that a batch needs and lacks.

    :param code: Code of the finding.
    :param path: The file, relative to the checkpoint.
    :param found: The damage, as a clause without a final stop.
    """

    code: Code
    path: str
    found: str

    def to_json(self) -> dict[str, str]:
        """The reason as the command prints it."""
        return {"code": self.code.value, "path": self.path, "found": self.found}


@dataclass(frozen=True, slots=True)
class BatchVerdict:
    """Whether one batch can be restored to.

    :param batch: Its id, from the offset log or the commit log.
    :param reasons: Why not; empty when it can.
    """

    batch: int
    reasons: tuple[Reason, ...]

    @property
    def restorable(self) -> bool:
        """Whether the directory can be restored to it."""
        return not self.reasons

    @property
    def provable(self) -> bool:
        """Whether it can be restored to, or only Spark can tell: then it can be asked."""
        return all(reason.code in _OPEN for reason in self.reasons)

    def to_json(self) -> dict[str, Any]:
        """The verdict as the command prints it."""
        return {
            "batch": self.batch,
            "restorable": self.restorable,
            "reasons": [reason.to_json() for reason in self.reasons],
        }


@dataclass(frozen=True, slots=True)
class SinkState:
    """What the log of the file sink that was judged together with the checkpoint says.

    :param path: Its output directory.
    :param max_batch: The highest batch that it has; -1 for none.
    """

    path: Tree
    max_batch: int


@dataclass(frozen=True, slots=True)
class Report:
    """The answer to "can Spark start from it as it stands, and go on with the right state?".

    :param startable: ``True``, ``False``, or ``None`` when it could not be read or is not there.
    :param restorable: All batch ids that it could be restored to, ascending.
    :param findings: First those that keep Spark from starting, then the others, each in the order of the checks.
    :param planned: L; -1 when there is none.
    :param committed: C; -1 when there is none.
    :param batches: Every batch in the offset log or the commit log, ascending, and what it lacks. A sink that is
        ahead or behind changes nothing of that: it is the restore that brings both together.
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
        """The newest batch to which it can be restored; ``None`` if it cannot be restored."""
        return self.restorable[-1] if self.restorable else None

    @property
    def provable(self) -> list[int]:
        """All batch ids that Spark can be asked about, ascending."""
        return [verdict.batch for verdict in self.batches if verdict.provable]

    def to_json(self) -> dict[str, Any]:
        """The report as ``spark-ha checkpoint verify --json`` prints it."""
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
    """Collects findings; the same one is kept once."""

    def __init__(self) -> None:
        self._found: dict[tuple[Code, str], Finding] = {}

    @property
    def blocked(self) -> bool:
        """Whether anything was found that keeps Spark from starting with the right state."""
        return any(finding.blocks for finding in self._found.values())

    @property
    def open(self) -> bool:
        """Whether anything was found of which is not known whether it keeps Spark from starting."""
        return any(finding.blocks is None for finding in self._found.values())

    def add(self, finding: Finding) -> None:
        """Keep a finding: of several with one code and path the first, unless only a later one blocks the start."""
        key = (finding.code, finding.path)
        known = self._found.get(key)
        if known is None or (finding.blocks and not known.blocks):
            self._found[key] = finding

    def all(self) -> tuple[Finding, ...]:
        """Return the findings; those that keep Spark from starting come first."""
        return tuple(sorted(self._found.values(), key=lambda finding: finding.blocks is False))
