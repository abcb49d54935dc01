"""Tries every mutant: ``python -m tests.mutants.run`` (``make mutants``).

A mutant is one change of the package that a rule forbids. Its test must fail on it, and pass without it. Exit code 0
only when all were killed. Results go to ``build/mutants/results.json``, from where ``tests.mutants.page`` takes them.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatch
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tests.mutants.bench import Bench
from tests.mutants.catalogue import LISTS, ROOT, Mutant, load
from tests.mutants.outcome import Outcome, Result


PLACE = ROOT / "build" / "mutants"
RESULTS = PLACE / "results.json"

_FILE_WIDTH = 200  # of the table, where no terminal says how wide it may be


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the mutants that were asked for."""
    parser = argparse.ArgumentParser(prog="make mutants", description="Break the package and see a test fail")
    parser.add_argument(
        "--only", metavar="PATTERN", help="ids, rules or lists to try: 'pointers-*', 'H3', 'stores.toml'"
    )
    parser.add_argument("--list", action="store_true", help="only show them")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time")
    options = parser.parse_args(arguments)
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_FILE_WIDTH)
    mutants = chosen(options.only)
    if not mutants:
        console.print(f"No mutant is called {options.only!r}")
        return 1
    if options.list:
        console.print(_table(mutants, []))
        return 0

    def tell(result: Result) -> None:
        console.print(f"{result.id}: {result.outcome.value} ({result.seconds:g} s)")
        remember([result], RESULTS)

    results = try_all(mutants, Bench(ROOT, PLACE), options.jobs, tell)
    console.print(_table(mutants, results))
    left = [result for result in results if result.outcome is not Outcome.KILLED]
    console.print(f"{len(results) - len(left)} of {len(results)} killed")
    return 1 if left else 0


def chosen(pattern: str | None, folder: Path = LISTS) -> list[Mutant]:
    """The mutants whose id or rule matches, or all of the list with that name."""
    if pattern is None:
        return load(folder)
    if pattern.endswith(".toml"):
        return load(folder, pattern)
    return [mutant for mutant in load(folder) if fnmatch(mutant.id, pattern) or fnmatch(mutant.rule, pattern)]


def try_all(
    mutants: Sequence[Mutant], bench: Bench, jobs: int, tell: Callable[[Result], None] = lambda _: None
) -> list[Result]:
    """Try them, and before them their tests without them: a test that fails anyway has killed nothing.

    :param tell: Called with each result as soon as it is there, from several threads.
    """
    by_file: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in mutants:
        by_file[mutant.test.partition("::")[0]].append(mutant)

    def of_one_file(group: list[Mutant]) -> dict[str, Result]:
        pass_unchanged = bench.control(group[0].id, sorted({mutant.test for mutant in group}))
        found = {}
        for mutant in group:
            found[mutant.id] = _settled(bench.try_out(mutant), passes=mutant.test in pass_unchanged)
            tell(found[mutant.id])
        return found

    with ThreadPoolExecutor(jobs) as pool:
        results = {name: result for found in pool.map(of_one_file, by_file.values()) for name, result in found.items()}
    return [results[mutant.id] for mutant in mutants]


def _settled(result: Result, *, passes: bool) -> Result:
    if result.outcome is Outcome.KILLED and not passes:
        return result.model_copy(update={"outcome": Outcome.FAILS_ANYWAY})
    return result


def remember(results: Sequence[Result], file: Path) -> None:
    """Add these results to those of earlier runs. Two runs may end at the same time."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.with_suffix(".lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _merge(results, file)


def _merge(results: Sequence[Result], file: Path) -> None:
    known = {result.id: result for result in recall(file)} | {result.id: result for result in results}
    told = [known[name].model_dump(mode="json") for name in sorted(known)]
    file.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")


def recall(file: Path) -> list[Result]:
    """What earlier runs found."""
    if not file.exists():
        return []
    return [Result.model_validate(told) for told in json.loads(file.read_text(encoding="utf-8"))]


def _table(mutants: Sequence[Mutant], results: Sequence[Result]) -> Table:
    table = Table("mutant", "rule", "test", "result", "seconds", "what was seen")
    by_id = {result.id: result for result in results}
    for mutant in mutants:
        result = by_id.get(mutant.id)
        seen = (
            (result.outcome.value, f"{result.seconds:g}", result.detail.split("\n")[0])
            if result
            else ("", "", mutant.why)
        )
        table.add_row(
            # A test's id may hold brackets, which are no markup.
            *(escape(text) for text in (mutant.id, mutant.rule, mutant.test.partition("tests/")[2], *seen)),
            style="" if not result or result.outcome is Outcome.KILLED else "red",
        )
    return table


if __name__ == "__main__":
    sys.exit(main())
