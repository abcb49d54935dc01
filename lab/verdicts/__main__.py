"""``python -m lab.verdicts PATTERN…``: ask about some cases only, and print where verdict and Spark differ.

A pattern fits the name of a case: ``'4.2.0 hdfs: metadata*'``. Answers are kept where ``make proof SUITE=verdicts``
keeps them; ``--all`` prints the cases that agree, too. ``--look-up`` asks nothing: it takes the answers that are there,
asks for every verdict again, and writes the lines and the page, as after a change of the package. It needs the
recordings of every release, and is refused without them.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from lab.verdicts.asked import answered, unrecorded
from lab.verdicts.cases import cases
from lab.verdicts.proof import Verdicts
from tests.support.releases.installed import ROOT


def main() -> int:
    """Ask, and print."""
    parser = argparse.ArgumentParser(prog="python -m lab.verdicts")
    parser.add_argument("patterns", nargs="*", metavar="PATTERN")
    parser.add_argument("--look-up", action="store_true", help="start no Spark, and write the page")
    parser.add_argument("--all", action="store_true", help="print what agrees, too")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "proofs" / "verdicts")
    given = parser.parse_args()
    if given.look_up and (missing := unrecorded(cases())):
        print(
            f"Nothing was changed: recordings of Spark {', '.join(missing)} are missing; make proof SUITE=verdicts "
            "makes them.",
            file=sys.stderr,
        )
        return 2
    given.folder.mkdir(parents=True, exist_ok=True)
    if given.look_up:
        proof = Verdicts.compared(given.folder, lambda text: print(text, file=sys.stderr), asking=False)
        print("\n".join([" ".join(row) for row in proof.rows] + list(proof.untrue)))
        return int(bool(proof.untrue))
    lines, wrong = answered(cases(given.patterns), given.folder, lambda text: print(text, file=sys.stderr))
    for line in lines:
        if given.all or line.agreement != "agree":
            print(f"| {line.agreement} | {line.name} | {line.spark} | {line.verdict} | {line.codes} |")
    print("\n".join(wrong))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
