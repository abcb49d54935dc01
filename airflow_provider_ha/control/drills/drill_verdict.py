"""What a drill's findings add up to. Pure.

Invariant: a no takes precedence over an unknown, and an unknown is never a no: a drill whose Spark gave no answer has
neither passed nor failed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from airflow_provider_ha.checkpoints.proof.report import Outcome, Proof
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.jobs.history.drills import DrillVerdict


_SHOWN = 10  # reasons
_LETTERS = 500  # of each


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a drill has to keep to; ``None`` for no limit.

    :param max_age: Seconds that what is restored may be old when the drill begins: the recovery point objective.
    :param max_duration: Seconds that all steps may take: the recovery time objective.
    :raises ConfigurationError: A limit is not above zero.
    """

    max_age: float | None = None
    max_duration: float | None = None

    def __post_init__(self) -> None:
        for name in ("max_age", "max_duration"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ConfigurationError(
                    f"a drill with {name} = {value} seconds cannot pass", next_step="Use more than 0, or no limit"
                )


def decide(
    limits: Limits, age: float, total: float, problems: Sequence[str], proofs: Mapping[str, Proof]
) -> tuple[DrillVerdict, tuple[str, ...]]:
    """Return the verdict, and why it is not PASSED.

    :param age: Seconds.
    :param total: Seconds.
    :param problems: Why it cannot be restored, as far as that is known without Spark.
    :param proofs: Query -> what Spark said.
    """
    no = [*problems, *_refused(proofs), *_exceeded(limits, age, total)]
    if no:
        return DrillVerdict.FAILED, _readable(no)
    unknown = [f"query {query}: {_unknown(proof)}" for query, proof in proofs.items() if proof.proven is None]
    if unknown:
        return DrillVerdict.UNKNOWN, _readable(unknown)
    return DrillVerdict.PASSED, ()


def _exceeded(limits: Limits, age: float, total: float) -> Iterator[str]:
    if limits.max_age is not None and age > limits.max_age:
        yield f"what would be restored is {age:.0f} s old, and at most {limits.max_age:g} s are allowed"
    if limits.max_duration is not None and total > limits.max_duration:
        yield f"the drill took {total:.1f} s, and at most {limits.max_duration:g} s are allowed"


def _refused(proofs: Mapping[str, Proof]) -> Iterator[str]:
    for query, proof in proofs.items():
        if proof.proven is not False:
            continue
        if proof.verdict is not None and not proof.verdict.restorable:
            yield from (f"{query}/{reason.path}: {reason.found}" for reason in proof.verdict.reasons)
        for doing, step in (("load its state", proof.loading), ("start it", proof.starting)):
            if step.outcome is Outcome.REFUTED:
                yield f"query {query}: Spark refused to {doing}: {step.reason}"


def _unknown(proof: Proof) -> str:
    reasons = [step.reason for step in (proof.loading, proof.starting) if step.outcome is Outcome.UNKNOWN]
    return "; ".join(dict.fromkeys(filter(None, reasons))) or "Spark gave no answer"


def _readable(reasons: Sequence[str]) -> tuple[str, ...]:
    """Shorten the reasons to a readable length: an error of Spark can be as long as its plan."""
    shown = [reason if len(reason) <= _LETTERS else f"{reason[:_LETTERS]}…" for reason in reasons[:_SHOWN]]
    left_off = len(reasons) - len(shown)
    return (*shown, f"and {left_off} more") if left_off else tuple(shown)
