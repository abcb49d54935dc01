"""docs/reference/verdicts.md: the table of agreement, written from the kept lines and the known disagreements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from lab.verdicts.answers import Line
from lab.verdicts.cases import topics
from lab.verdicts.known import Judged, Known, judged
from tests.support.releases.corpus import RESTARTS
from tests.support.releases.installed import ROOT


PAGE = ROOT / "docs" / "reference" / "verdicts.md"
KINDS = ("agree", "cautious", "unknown", "missed", "false alarm")
_HEAD = """\
# Verdicts compared with Spark

`spark-ha checkpoint verify --depth full --spark-version` judged {cases:,} damaged checkpoints, and so did Spark: each
release recorded them, and was started again on a copy with the same damage, with one new file of input, up to
{starts} times in a row. Spark is *right* when every start ends with the rows that a whole checkpoint gives, under the
same query id.

For a checkpoint *restored N back*, the question is whether the batch N before the newest is on its restorable list. If
so, Spark was started from a restore to this batch; if not, from the same files with the logs cut back to the batch.

- **agree**: the verdict is yes and Spark was right, or it is no and Spark was not.
- **cautious**: the verdict is no and Spark was right; on purpose, with the reason below.
- **unknown**: the files do not show it; `--depth prove` does.
- **missed**: the verdict is yes, and Spark failed or went wrong.
- **false alarm**: the verdict is no, and Spark was right.

`make proof SUITE=verdicts` asks Spark the open questions and writes this page. The answers are stored in
`lab/verdicts/data`, one line each; the reasons in `lab/verdicts/disagreements.toml`.
"""


def rendered(lines: Sequence[Line], reasons: Sequence[Known]) -> str:
    """Return the page. Pure."""
    result = judged(lines, reasons)
    kinds = dict(zip(lines, result.kinds, strict=True))
    releases = sorted({line.release for line in lines})
    parts = [
        _HEAD.format(cases=len(lines), starts=RESTARTS).rstrip(),
        "## By release",
        _by_release(kinds, releases),
        "## By kind of damage",
        "A number is how many checkpoints of different shapes agree; what disagrees is named.",
        *_by_kind(kinds, releases),
        "## Where they differ",
        *_reasons(lines, reasons, result),
    ]
    return "\n\n".join(parts) + "\n"


def totals(lines: Sequence[Line], kinds: Sequence[str]) -> list[tuple[str, ...]]:
    """Return a row for each release: its name, its cases, and how many of each of :data:`KINDS`."""
    count = Counter((line.release, kind) for line, kind in zip(lines, kinds, strict=True))
    releases = sorted({line.release for line in lines})
    rows = [(release, [count[release, kind] for kind in KINDS]) for release in releases]
    return [(release, f"{sum(numbers):,}", *(f"{number:,}" for number in numbers)) for release, numbers in rows]


def _by_release(kinds: dict[Line, str], releases: Sequence[str]) -> str:
    rows = totals(list(kinds), list(kinds.values()))
    whole = Counter(kinds.values())
    rows.append((f"all {len(releases)}", f"{len(kinds):,}", *(f"{whole[kind]:,}" for kind in KINDS)))
    return _table(("Release", "Checkpoints", *KINDS), rows)


def _by_kind(kinds: dict[Line, str], releases: Sequence[str]) -> list[str]:
    parts = []
    for topic, damages in topics():
        rows = []
        for name in dict.fromkeys(damage.name for damage in damages):
            cells = [_cell(kinds, name, release) for release in releases]
            if any(cells):
                rows.append((name, *cells))
        if rows:
            parts += [f"### {topic}", _table(("Damage", *releases), rows)]
    return parts


def _cell(kinds: dict[Line, str], damage: str, release: str) -> str:
    count = Counter(kind for line, kind in kinds.items() if line.damage == damage and line.release == release)
    told = [str(count["agree"])] if count["agree"] else []
    return ", ".join(told + [f"{count[kind]} {kind}" for kind in KINDS[1:] if count[kind]])


def _reasons(lines: Sequence[Line], reasons: Sequence[Known], result: Judged) -> list[str]:
    parts = []
    for reason in reasons:
        fitting = [line for line in lines if reason.fits(line)]
        if fitting:
            cases = [f"- {line.name}: Spark {line.spark}" for line in _shortened(fitting)]
            parts += [f"**{len(fitting)} {reason.kind}.** {reason.why}", "\n".join(cases)]
    if result.unexplained:
        parts += ["**Without a reason:**", "\n".join(f"- {line.name}" for line in result.unexplained)]
    return parts or ["Nowhere."]


def _shortened(lines: Sequence[Line]) -> list[Line]:
    """Put cases that differ in nothing but the release together."""
    together: dict[tuple[str, str, str], list[str]] = {}
    for line in lines:
        together.setdefault((line.shape, line.damage, line.spark), []).append(line.release)
    return [
        Line(", ".join(releases), shape, damage, "", spark, "", "")
        for (shape, damage, spark), releases in together.items()
    ]


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
