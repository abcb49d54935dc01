"""One finding of a verification: what was expected, what was found, and what that means."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_ha.checkpoints.verify.codes import Code
from airflow_provider_ha.checkpoints.verify.remediation import MEANINGS


__all__ = ["Code", "Finding"]
_STARTS = {
    True: "Spark cannot start from it as it stands, or would go on with wrong or lost data.",
    False: "It does not keep Spark from starting.",
    None: "Whether Spark can start is not known.",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, or worth knowing.

    :param code: What kind of thing.
    :param path: File or directory, relative to the checkpoint; ``"."`` for the checkpoint itself. What belongs to a
        sink has its absolute path.
    :param batch: The newest batch that it concerns; ``None`` when it concerns all or none.
    :param found: What is there instead, as a clause without a final stop.
    :param expected: What has to be there, as a clause without a final stop; empty where nothing was expected.
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
        """What was found and what was expected, as one sentence without a final stop."""
        return f"{self.found}; expected: {self.expected}" if self.expected else self.found

    @property
    def meaning(self) -> str:
        """What it means for a decision: whether Spark can start, and what is lost."""
        return f"{_STARTS[self.blocks]} {MEANINGS[self.code].what}"

    @property
    def next_step(self) -> str:
        """What to do about it."""
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
