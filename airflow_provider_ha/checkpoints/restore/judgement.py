"""Collector of the findings that keep a restore from being SAFE: verdict, reason and ways out."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from airflow_provider_ha.checkpoints.model import PlanFinding, RestorePlan, Verdict


_SEVERITY = (Verdict.SAFE, Verdict.DUPLICATES_POSSIBLE, Verdict.LOSS_POSSIBLE, Verdict.IMPOSSIBLE)


@dataclass(slots=True)
class Judgement:
    """Judgement of a query so far."""

    query: str
    findings: list[PlanFinding] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    def add(self, verdict: Verdict, reason: str, *ways_out: str) -> None:
        """Note a finding."""
        self.findings.append(
            PlanFinding(query=self.query, verdict=verdict, reason=f"{self.query}: {reason}", ways_out=ways_out)
        )

    def add_unknown(self, reason: str, *ways_out: str) -> None:
        """Add an unknown fact: at worst rows are lost, and a plan never assumes otherwise."""
        name = f"name the query (--accept-unverified {self.query}) and LOSS_POSSIBLE to continue without this fact"
        self.unknown.append(reason)
        self.add(Verdict.LOSS_POSSIBLE, f"not known: {reason}", *ways_out, name)  # guard: unknown-is-safe


def worst(findings: Iterable[PlanFinding]) -> Verdict:
    """Return the verdict of a plan: that of its worst finding."""
    return max((finding.verdict for finding in findings), key=_SEVERITY.index, default=Verdict.SAFE)


def not_accepted(plan: RestorePlan, allow: Collection[Verdict]) -> list[Verdict]:
    """Return the verdicts of *plan* that still need to be accepted by name, worst first.

    Each verdict is accepted separately: accepting possible loss does not accept repeated writes. IMPOSSIBLE cannot be
    accepted.
    """
    found = {finding.verdict for finding in plan.findings} | {plan.verdict}
    refused = found - set(allow) - {Verdict.SAFE} | found & {Verdict.IMPOSSIBLE}  # guard: impossible-can-be-asked-for
    return sorted(refused, key=_SEVERITY.index, reverse=True)
