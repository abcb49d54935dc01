"""Tries every mutant: ``python -m tests.mutants.run`` (``make mutants``).

A mutant is one change of the package that a rule forbids. Its test must fail on it, and pass without it. Exit code 0
only when all were killed. Each result goes to ``tests/mutants/results.json`` and onto the page as soon as it is there.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatch
from pathlib import Path

from tests.mutants.bench import Bench
from tests.mutants.catalogue import LISTS, ROOT, Mutant, load
from tests.mutants.outcome import Outcome, Result
from tests.mutants.page import remember


PLACE = ROOT / "build" / "mutants"


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the mutants that were asked for."""
    parser = argparse.ArgumentParser(prog="make mutants", description="Break the package and see a test fail")
    parser.add_argument(
        "--only", default="*", metavar="PATTERN", help="ids or lists to try: 'pointer-*', 'pointers.toml'"
    )
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time")
    options = parser.parse_args(arguments)
    mutants = chosen(options.only)
    if not mutants:
        print(f"No mutant is called {options.only!r}")
        return 1

    def tell(result: Result) -> None:
        print(f"{result.mutant.id}: {result.outcome.value} ({result.seconds:g} s)", flush=True)
        remember({result.mutant.fingerprint: result.outcome.value})

    results = try_all(mutants, Bench(ROOT, PLACE), options.jobs, tell)
    left = [result for result in results if result.outcome is not Outcome.KILLED]
    for result in left:
        print(f"{result.mutant.id}: {result.outcome.value}: {result.detail}")
    print(f"{len(results) - len(left)} of {len(results)} killed")
    return 1 if left else 0


def chosen(pattern: str, folder: Path = LISTS) -> list[Mutant]:
    """The mutants whose id matches, or all of the list with that name."""
    if pattern.endswith(".toml"):
        return load(folder, pattern)
    return [mutant for mutant in load(folder) if fnmatch(mutant.id, pattern)]


def try_all(
    mutants: Sequence[Mutant], bench: Bench, jobs: int, tell: Callable[[Result], None] = lambda _: None
) -> list[Result]:
    """Try them, and before them their tests without them: a test that fails anyway has killed nothing.

    :param tell: Called with each result as soon as it is there, from several threads.
    """
    by_file: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in mutants:
        by_file[mutant.test.partition("::")[0]].append(mutant)

    def of_one_file(group: list[Mutant]) -> list[Result]:
        pass_unchanged = bench.control(group[0].id, sorted({mutant.test for mutant in group}))
        found = []
        for mutant in group:
            found.append(_settled(bench.try_out(mutant), passes=mutant.test in pass_unchanged))
            tell(found[-1])
        return found

    with ThreadPoolExecutor(jobs) as pool:
        return [result for found in pool.map(of_one_file, by_file.values()) for result in found]


def _settled(result: Result, *, passes: bool) -> Result:
    if result.outcome is Outcome.KILLED and not passes:
        return Result(result.mutant, Outcome.FAILS_ANYWAY, result.seconds, result.detail)
    return result


if __name__ == "__main__":
    sys.exit(main())
