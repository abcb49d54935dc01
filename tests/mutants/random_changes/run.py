"""Tries random changes of the package: ``make mutants RANDOM=n SEED=s``, or ``python -m`` this module.

Each is tried on a copy, with the quick tests that execute its line. The same seed chooses the same changes; results are
kept in ``build/mutants/random.json``, so a run that was interrupted goes on, and a survivor is tried again once the
tests have changed. Exit code 0 only when none is left: each survivor is killed by a new test, removed with the code
that is not needed, or listed in ``equivalent.toml``: with its reason, or with the chosen mutant of the same change.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from queue import SimpleQueue
from threading import Lock

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tests.mutants.bench import Bench
from tests.mutants.catalogue import ROOT
from tests.mutants.random_changes.changes import Change, changes, chosen
from tests.mutants.random_changes.covering import PACKAGE, Covering, covering, digest
from tests.mutants.random_changes.equivalents import equivalents, listed
from tests.mutants.random_changes.trial import Fate, Trial, tried


PLACE = ROOT / "build" / "mutants"
RESULTS = PLACE / "random.json"
PARTS = (
    "_process",
    "coordination",
    "pointers",
    "checkpoints",
    "jobs",
    "recovery",
    "driver",
    "supervisor",
    "proof",
    "engines",
    "control",
)

_FILE_WIDTH = 200  # of the table, where no terminal says how wide it may be


@dataclass(frozen=True, slots=True)
class Tree:
    """What the copies were made from: files may be edited while the changes are tried.

    :param files: File of the package -> digest.
    :param tests: Digest of all tests.
    """

    files: Mapping[str, str] = field(default_factory=dict)
    tests: str = ""

    @classmethod
    def now(cls, root: Path, sample: Sequence[Change]) -> Tree:
        """Return what is there now."""
        tests = sorted((root / "tests").rglob("*.py"))
        together = hashlib.sha256("".join(map(digest, tests)).encode()).hexdigest()[:16]
        return cls({change.file: digest(root / change.file) for change in sample}, together)


def main(arguments: Sequence[str] | None = None) -> int:
    """Try as many changes as were asked for."""
    parser = argparse.ArgumentParser(prog="make mutants RANDOM=n", description="Change the package at random")
    parser.add_argument("--number", type=int, default=100, help="how many changes to try")
    parser.add_argument("--seed", type=int, default=1, help="the same seed chooses the same changes")
    parser.add_argument("--only", default="*", metavar="PATTERNS", help="files to change: '*/pointers/*,*/jobs/*'")
    parser.add_argument("--list", action="store_true", help="only show them")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time")
    options = parser.parse_args(arguments)
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_FILE_WIDTH)
    sample = chosen(all_changes(ROOT, options.only.split(",")), options.seed, options.number)
    if options.list:
        console.print(_table([_trial(change, Tree(), Fate.NOT_COVERED, "not tried") for change in sample]))
        return 0
    trials = try_all(sample, options.jobs, console)
    console.print(_table(trials))
    counted = Counter(trial.fate for trial in trials)
    console.print(f"seed {options.seed}: " + ", ".join(f"{counted[fate]} {fate.value}" for fate in Fate))
    return 1 if any(trial.left for trial in trials) else 0


def all_changes(root: Path, patterns: Sequence[str]) -> list[Change]:
    """Return every change of the files that match one of the patterns."""
    files = sorted(path for part in PARTS for path in (root / PACKAGE / part).rglob("*.py"))
    names = [str(path.relative_to(root)) for path in files]
    return [
        change
        for name in names
        if any(fnmatch(name, pattern) for pattern in patterns)
        for change in changes(name, (root / name).read_text(encoding="utf-8"))
    ]


def try_all(sample: Sequence[Change], jobs: int, console: Console) -> list[Trial]:
    """Return what became of each, in the order of files and lines; what is known is not tried again."""
    tree = Tree.now(ROOT, sample)
    entries, known = equivalents(), {trial.id: trial for trial in recall(RESULTS)}
    found: dict[str, Trial] = {}
    for change in sample:
        if (entry := listed(change, entries)) is not None:
            fate = Fate.CHOSEN if entry.mutant else Fate.EQUIVALENT
            found[change.id] = _trial(change, tree, fate, entry.mutant or entry.why)
        elif still_holds(known.get(change.id), tree.files[change.file], tree.tests):
            found[change.id] = known[change.id]
    left = [change for change in sample if change.id not in found]
    if left:
        covered = covering(ROOT, PLACE / "covering", console.print)
        found |= {trial.id: trial for trial in _try(left, covered, tree, jobs, console.print)}
    return sorted((found[change.id] for change in sample), key=lambda trial: (trial.file, trial.number))


def still_holds(trial: Trial | None, file_digest: str, tests_digest: str) -> bool:
    """Whether an earlier result says what a new trial would say."""
    if trial is None or trial.digest != file_digest or trial.fate in (Fate.EQUIVALENT, Fate.CHOSEN):
        return False
    return not trial.left or trial.tests_digest == tests_digest


def _try(
    sample: Sequence[Change], covered: Covering, tree: Tree, jobs: int, tell: Callable[[str], None]
) -> list[Trial]:
    bench, copies, lock = Bench(ROOT, PLACE), SimpleQueue[Path](), Lock()
    for number in range(jobs):
        copies.put(bench.copy(f"random-{number}"))

    def one(change: Change) -> Trial:
        copy = copies.get()
        try:
            fate, by, tests, seconds = tried(change, covered, bench, copy)
        finally:
            copies.put(copy)
        trial = _trial(change, tree, fate, by, tests=tests, seconds=seconds)
        with lock:
            remember(trial, RESULTS)
            tell(escape(f"{change.file}:{change.first} {change.kind}: {fate.value} ({seconds:g} s)"))
        return trial

    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(one, sample))


def _trial(change: Change, tree: Tree, fate: Fate, by: str, *, tests: int = 0, seconds: float = 0.0) -> Trial:
    return Trial(
        id=change.id,
        digest=tree.files.get(change.file, ""),
        tests_digest=tree.tests,
        file=change.file,
        number=change.first,
        line=change.line,
        kind=change.kind,
        fate=fate,
        by=by,
        tests=tests,
        seconds=seconds,
    )


def recall(file: Path) -> list[Trial]:
    """Return what earlier runs found."""
    if not file.exists():
        return []
    return [Trial.model_validate(told) for told in json.loads(file.read_text(encoding="utf-8"))]


def remember(trial: Trial, file: Path) -> None:
    """Add a result to those of earlier runs."""
    known = {one.id: one for one in recall(file)} | {trial.id: trial}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps([known[name].model_dump(mode="json") for name in sorted(known)], indent=1))


def _table(trials: Sequence[Trial]) -> Table:
    table = Table("file", "line", "change", "text", "result", "killed by")
    for trial in trials:
        cells = (
            trial.file.removeprefix(f"{PACKAGE}/"),
            str(trial.number),
            trial.kind,
            trial.line,
            trial.fate.value,
            trial.by.removeprefix("tests/"),
        )
        table.add_row(*map(escape, cells), style="red" if trial.left else "")
    return table


if __name__ == "__main__":
    sys.exit(main())
