"""The report of a verification: findings, verdicts on batches, and the collector of the findings.

Invariant: ``startable`` is ``False`` exactly when a finding that blocks the start was collected; ``None`` when a file
that matters could not be read.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_ha.checkpoints.spark.tree import Tree
from airflow_provider_ha.checkpoints.verify.codes import MEANINGS, Code


_STARTS = {
    True: "Spark cannot start from this directory, or would continue with wrong or lost data.",
    False: "It does not prevent a start of Spark.",
    None: "Whether Spark can start is unknown.",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem or a noteworthy fact.

    :param code: Code of the finding (page Findings of a verification).
    :param path: File or directory, relative to the checkpoint; ``"."`` for the checkpoint itself. A sink's files have
        absolute paths.
    :param batch: The newest batch concerned; ``None`` for all batches or none.
    :param found: The observation, as a clause without a final stop.
    :param expected: The expectation, as a clause without a final stop; may be empty.
    :param blocks: Whether it prevents a start of Spark, or makes Spark continue with wrong or lost data; ``None`` if
        unknown.
    """

    code: Code
    path: str
    batch: int | None
    found: str
    expected: str = ""
    blocks: bool | None = False

    @property
    def message(self) -> str:
        """Observation and expectation, as one sentence without a final stop."""
        return f"{self.found}; expected: {self.expected}" if self.expected else self.found

    @property
    def meaning(self) -> str:
        """Consequence for a decision: whether Spark can start, and the losses."""
        return f"{_STARTS[self.blocks]} {MEANINGS[self.code].what}"

    @property
    def next_step(self) -> str:
        """Recommended action."""
        return MEANINGS[self.code].next_step


# Reasons that leave a batch undecided: the files do not show the answer.
_OPEN = frozenset({Code.STATE_UNKNOWN, Code.OFFSETS_SPARSE})


@dataclass(frozen=True, slots=True)
class Reason:
    """One requirement that a batch lacks.

    :param code: Code of the finding (page Findings of a verification).
    :param path: The file, relative to the checkpoint.
    :param found: The damage.
    """

    code: Code
    path: str
    found: str


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


@dataclass(frozen=True, slots=True)
class SinkLogState:
    """State of the file sink's log that was judged with the checkpoint.

    :param path: Its output directory.
    :param max_batch: The highest batch in its log; -1 for none.
    """

    path: Tree
    max_batch: int


@dataclass(frozen=True, slots=True)
class VerificationReport:
    """Answer to "can Spark start from this directory, and continue with the right state?".

    :param startable: ``True``, ``False``, or ``None`` when the directory is missing, or something that matters could
        not be read.
    :param restorable: All batch ids that it could be restored to, ascending: every file that a restore takes is whole.
    :param findings: All findings, ordered: findings that prevent a start of Spark come first.
    :param planned: The highest batch in ``offsets/``; -1 for none.
    :param committed: The highest batch in ``commits/``; -1 for none.
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
    sink: SinkLogState | None = None

    @property
    def latest_restorable(self) -> int | None:
        """The newest restorable batch; ``None`` if there is none."""
        return self.restorable[-1] if self.restorable else None

    @property
    def provable(self) -> list[int]:
        """All batch ids that a check with Spark can decide, ascending."""
        return [verdict.batch for verdict in self.batches if verdict.provable]


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
