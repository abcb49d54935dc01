"""Tries random changes of the package: ``make mutants RANDOM=n SEED=s``, for a night ``make mutants MINUTES=480``.

Each is tried on a copy, with the quick tests that execute its line. The same seed chooses the same changes. Results are
kept in ``build/mutants/random.jsonl``, so the next call goes on: with changes of files that are new or edited, then
with survivors, which are tried again once the tests have changed. Exit code 0 only when none is left: each survivor is
killed by a new test, removed with the code that is not needed, or listed with its reason in ``equivalent.toml``.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from time import monotonic

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from lab.random_changes.changes import Change, changes, chosen
from lab.random_changes.covering import PACKAGE, covering, digest
from lab.random_changes.equivalents import equivalents, listed
from lab.random_changes.trial import Fate, Trial, tried
from tests.mutants.bench import Bench
from tests.mutants.catalogue import ROOT


PLACE = ROOT / "build" / "mutants"
RESULTS = PLACE / "random.jsonl"
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
    """Try as many changes as were asked for, or as there is time for."""
    parser = argparse.ArgumentParser(prog="make mutants RANDOM=n", description="Change the package at random")
    parser.add_argument("--number", type=int, help="how many changes to try; without it all")
    parser.add_argument("--minutes", type=float, default=math.inf, help="when to begin no more changes")
    parser.add_argument("--seed", type=int, default=1, help="the same seed chooses the same changes")
    parser.add_argument("--only", default="*", metavar="PATTERNS", help="files to change: '*/pointers/*,*/jobs/*'")
    parser.add_argument("--since", metavar="REVISION", help="only files that have changed since a revision of git")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time")
    options = parser.parse_args(arguments)
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_FILE_WIDTH)
    names = [name for name in files(ROOT, options.since) if any(fnmatch(name, one) for one in options.only.split(","))]
    sample = chosen(all_changes(ROOT, names), options.seed, options.number)
    trials = try_all(sample, options.jobs, console, monotonic() + 60 * options.minutes)
    console.print(_table([trial for trial in trials if trial.left] if options.number is None else trials))
    counted = Counter(trial.fate for trial in trials)
    console.print(
        f"seed {options.seed}: {len(trials)} of {len(sample)} changes: "
        + ", ".join(f"{counted[fate]} {fate.value}" for fate in Fate)
    )
    return 1 if any(trial.left for trial in trials) else 0


def files(root: Path, since: str | None = None) -> list[str]:
    """Return the modules of the package, or those that have changed since a revision."""
    if since is None:
        return sorted(str(path.relative_to(root)) for path in (root / PACKAGE).rglob("*.py"))
    command = ["git", "diff", "--name-only", "--diff-filter=d", since, "--", f"{PACKAGE}/*.py"]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.split()


def all_changes(root: Path, names: Sequence[str]) -> list[Change]:
    """Return every change of some files."""
    return [change for name in names for change in changes(name, (root / name).read_text(encoding="utf-8"))]


def try_all(sample: Sequence[Change], jobs: int, console: Console, until: float = math.inf) -> list[Trial]:
    """Return what became of each, in the order of files and lines; what is known is not tried again.

    :param until: The monotonic time from which on no trial begins; those that are left out have no result.
    """
    tree = Tree.now(ROOT, sample)
    entries, known = equivalents(), {trial.id: trial for trial in recall(RESULTS)}
    found: dict[str, Trial] = {}
    for change in sample:
        if (entry := listed(change, entries)) is not None:
            found[change.id] = _trial(change, tree, Fate.EQUIVALENT, entry.why)
        elif still_holds(known.get(change.id), tree.files[change.file], tree.tests):
            found[change.id] = known[change.id]
    left = [change for change in sample if change.id not in found]
    left.sort(key=lambda change: change.id in known and known[change.id].digest == tree.files[change.file])
    if left:
        found |= {trial.id: trial for trial in _try(left, tree, jobs, console.print, until)}
    return sorted(found.values(), key=lambda trial: (trial.file, trial.number))


def still_holds(trial: Trial | None, file_digest: str, tests_digest: str) -> bool:
    """Whether an earlier result says what a new trial would say."""
    if trial is None or trial.digest != file_digest or trial.fate is Fate.EQUIVALENT:
        return False
    return not trial.left or trial.tests_digest == tests_digest


def _try(sample: Sequence[Change], tree: Tree, jobs: int, tell: Callable[[str], None], until: float) -> list[Trial]:
    covered = covering(ROOT, PLACE / "covering", tell)
    bench, copies, lock = Bench(ROOT, PLACE), SimpleQueue[Path](), Lock()
    for number in range(jobs):
        copies.put(bench.copy(f"random-{number}"))

    def one(change: Change) -> Trial | None:
        if monotonic() >= until:
            return None
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
        return [trial for trial in pool.map(one, sample) if trial is not None]


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
    """Return what earlier runs found, the newest last."""
    if not file.exists():
        return []
    return [Trial.model_validate_json(line) for line in file.read_text(encoding="utf-8").splitlines()]


def remember(trial: Trial, file: Path) -> None:
    """Add a result to those of earlier runs."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as results:
        results.write(trial.model_dump_json() + "\n")


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
