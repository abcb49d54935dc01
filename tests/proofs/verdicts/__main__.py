"""``python -m tests.proofs.verdicts PATTERN…``: ask about some cases only, and print where verdict and Spark differ.

A pattern fits the name of a case: ``'4.2.0 hdfs: metadata*'``. Answers are kept where ``make proof SUITE=verdicts``
keeps them; ``--all`` prints the cases that agree, too.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.proofs.verdicts.asked import answered
from tests.proofs.verdicts.cases import cases
from tests.releases.installed import ROOT


def main() -> int:
    """Ask, and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.proofs.verdicts")
    parser.add_argument("patterns", nargs="+", metavar="PATTERN")
    parser.add_argument("--all", action="store_true", help="print what agrees, too")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "proofs" / "verdicts")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    lines, wrong = answered(cases(given.patterns), given.folder, lambda text: print(text, file=sys.stderr))
    for line in lines:
        if given.all or line.agreement != "agree":
            print(f"| {line.agreement} | {line.name} | {line.spark} | {line.verdict} | {line.codes} |")
    print("\n".join(wrong))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
