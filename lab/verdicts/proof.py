"""``make proof SUITE=verdicts``: every damage of every shape, asked of every release, and compared with the verdict."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lab.suite import Proof
from lab.verdicts.answers import write
from lab.verdicts.asked import answered
from lab.verdicts.cases import cases, damages
from lab.verdicts.known import judged, known
from lab.verdicts.page import KINDS, PAGE, rendered, totals


class Verdicts:
    """The suite."""

    name = "verdicts"
    title = "No wrong verdict"

    @property
    def about(self) -> str:
        """What is done and what has to hold."""
        kinds = len({damage.name for damage in damages()})
        return (
            f"{kinds} kinds of damage to the checkpoints that each release of Spark recorded. Each release is started"
            " again on each copy, and its answer compared with the verdict of `checkpoint verify --depth full`. Every"
            " disagreement has a reason, and every reason a disagreement. The table of all kinds is"
            " [on a separate page](verdicts.md)."
        )

    def run(self, folder: Path, tell: Callable[[str], None]) -> Proof:
        """Ask what is not answered yet, and compare everything."""
        return self.compared(folder, tell, asking=True)

    @staticmethod
    def compared(folder: Path, tell: Callable[[str], None], *, asking: bool) -> Proof:
        """Compare everything, and write the lines and the page.

        :param asking: Whether Spark is asked what is not answered yet.
        """
        lines, untrue = answered(cases(), folder, tell, asking=asking)
        write(lines)
        reasons = known()
        PAGE.write_text(rendered(lines, reasons), encoding="utf-8")
        result = judged(lines, reasons)
        untrue += [f"{line.name}: {line.agreement} without a reason." for line in result.unexplained]
        untrue += [f"No case needs the reason '{reason.why}' any more." for reason in result.idle]
        return Proof(("release", "checkpoints", *KINDS), totals(lines, result.kinds), untrue)
