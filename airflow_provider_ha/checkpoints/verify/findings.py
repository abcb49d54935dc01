"""A verification finding: what was expected, what was found, and its consequence."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_ha.checkpoints.verify.codes import Code
from airflow_provider_ha.checkpoints.verify.remediation import MEANINGS


__all__ = ["Code", "Finding"]
_STARTS = {
    True: "Spark cannot start from this directory, or would continue with wrong or lost data.",
    False: "It does not prevent a start of Spark.",
    None: "Whether Spark can start is unknown.",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem or a noteworthy fact.

    :param code: Kind of the finding.
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
        """Consequence for a decision: whether Spark can start, and what is lost."""
        return f"{_STARTS[self.blocks]} {MEANINGS[self.code].what}"

    @property
    def next_step(self) -> str:
        """Recommended action."""
        return MEANINGS[self.code].next_step

    def to_json(self) -> dict[str, str | int | bool | None]:
        """The finding as the command prints it."""
        return {
            "code": self.code.value,
            "path": self.path,
            "batch": self.batch,
            "message": self.message,
            "expected": self.expected,
            "found": self.found,
            "blocks": self.blocks,
            "meaning": self.meaning,
            "next_step": self.next_step,
        }
