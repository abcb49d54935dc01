"""What a verification says, and how findings are collected on the way.

Invariant: ``startable`` is ``False`` exactly when a finding that blocks the start was collected; ``None`` when
something that matters could not be read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow_provider_ha.checkpoints.verification.findings import Code, Finding


@dataclass(frozen=True, slots=True)
class Report:
    """The answer to "can Spark start from it as it stands, and go on with the right state?".

    :param startable: ``True``, ``False``, or ``None`` when it could not be read or is not there.
    :param restorable: All batch ids that it could be restored to, ascending.
    :param findings: What was found, in the order of the look.
    :param planned: L; -1 when there is none.
    :param committed: C; -1 when there is none.
    """

    startable: bool | None
    restorable: list[int]
    findings: tuple[Finding, ...]
    planned: int = -1
    committed: int = -1

    @property
    def latest_restorable(self) -> int | None:
        """The newest batch that it could be restored to; ``None`` when there is none."""
        return self.restorable[-1] if self.restorable else None

    def to_json(self) -> dict[str, Any]:
        """The report as ``spark-ha checkpoint verify --json`` prints it."""
        return {
            "startable": self.startable,
            "restorable": self.restorable,
            "latest_restorable": self.latest_restorable,
            "planned": self.planned,
            "committed": self.committed,
            "findings": [finding.to_json() for finding in self.findings],
        }


class Findings:
    """Collects findings; the same one is kept once."""

    def __init__(self) -> None:
        self._found: dict[tuple[Code, str], Finding] = {}
        self.blocked = False

    def add(self, code: Code, path: str, message: str, *, batch: int | None = None, blocks: bool = False) -> None:
        """Keep a finding.

        :param blocks: Whether Spark cannot start because of it, or would go on with the wrong state.
        """
        self.blocked |= blocks
        self._found.setdefault((code, path), Finding(code, path, batch, message))

    def all(self) -> tuple[Finding, ...]:
        """Return what was found."""
        return tuple(self._found.values())
