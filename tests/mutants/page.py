"""Writes tests/mutants/README.md: ``python -m tests.mutants.page``; ``make mutants`` does it at its end.

Cases, tests and mutants come from the tests' ``flink`` markers and the lists. A result belongs to the fingerprint of a
mutant: that of one that was changed since is dropped.
"""

from __future__ import annotations

import ast
import fcntl
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.catalogue import ROOT, Mutant, load, read_toml


PAGE = ROOT / "tests" / "mutants" / "README.md"
RESULTS = ROOT / "tests" / "mutants" / "results.json"  # fingerprint of a mutant -> its last result
CASES = ROOT / "tests" / "mutants" / "flink" / "cases.toml"

_HEAD = """\
# Mutants and conformance

A mutant is one change of the package that breaks one rule of election, fencing, pointers, removal or verdicts. It
names a guard: a statement that carries the comment `# guard: <id>`, in Java a line with `// guard: <id>`.
`make mutants` applies each mutant to a copy and runs the test that must notice. A test that could not run, or that
fails without the change too, has killed nothing. Random changes cover the other code: `make mutants MINUTES=480`.

`make mutants` and `python -m tests.mutants.page` write this page from the lists in `tests/mutants`, from `results.json`
and from the tests' `flink` markers. A test holds that it is in step.
"""


@dataclass(frozen=True, slots=True, order=True)
class Marked:
    """One ``flink`` marker of one test.

    :param entry: The number of the case.
    :param test: Node id without parameters.
    :param name: The case, as Flink names it.
    :param mutant: Id of the mutant that the test kills; empty for none.
    """

    entry: int
    test: str
    name: str
    mutant: str = ""


def main() -> None:
    """Write the page, and drop the results of mutants that are gone."""
    remember({})
    print(f"{PAGE.relative_to(ROOT)} is written")


def remember(newer: Mapping[str, str]) -> None:
    """Add results to those of earlier runs, and write the page. Two runs may end at the same time.

    :param newer: Fingerprint of a mutant -> its result.
    """
    mutants = load()
    with CASES.open(encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        results = {**recorded(), **newer}
        results = {one.fingerprint: results[one.fingerprint] for one in mutants if one.fingerprint in results}
        RESULTS.write_text(json.dumps(results, indent=0, sort_keys=True) + "\n", encoding="utf-8")
        PAGE.write_text(page(without_a_test(), marked_tests(), mutants, results), encoding="utf-8")


def recorded() -> dict[str, str]:
    """Return fingerprint -> result, of earlier runs."""
    found: dict[str, str] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return found


def without_a_test() -> dict[int, str]:
    """Return entry -> case of Flink, of those that no test of ours holds."""
    return {int(entry): str(name) for entry, name in read_toml(CASES)["cases"].items()}


def marked_tests(root: Path = ROOT) -> list[Marked]:
    """Read the markers from the source of the tests, which are decorators there: nothing is imported."""
    return sorted(one for file in (root / "tests").rglob("test_*.py") for one in _markers(file, root))


def page(
    untested: Mapping[int, str], marked: Sequence[Marked], mutants: Sequence[Mutant], results: Mapping[str, str]
) -> str:
    """Return the page's text. Pure.

    :param untested: Entry -> case of Flink.
    :param results: Fingerprint of a mutant -> its result.
    """
    killed = sum(results.get(one.fingerprint) == "killed" for one in mutants)
    of_ours = "\n".join(
        f"| `{one.id}` | {one.why.replace('|', 'or')} | {results.get(one.fingerprint, 'not tried')} |"
        for one in mutants
    )
    tested = [(one.entry, one.name, f"`{_short(one.test)}`", one.mutant and f"`{one.mutant}`") for one in marked]
    rows = sorted([*tested, *((entry, case, "no test", "") for entry, case in untested.items())])
    of_flink = "\n".join(f"| {entry} | `{case}` | {test} | {mutant} |" for entry, case, test, mutant in rows)
    return (
        f"{_HEAD}\n## Mutants\n\n{killed} of {len(mutants)} are killed as they are now. In brackets is the"
        " [rule](../../docs/reference/rules.md) or the contract of the\n"
        "[design](../../docs/explanation/design.md#4-contracts) that is broken.\n\n"
        f"| mutant | what would go wrong | result |\n|---|---|---|\n{of_ours}\n\n"
        "## Flink's cases\n\nFlink's own suites hold the rules of high availability that this provider takes over."
        f" {len({one.entry for one in marked})} of\n{len({row[0] for row in rows})} cases have a test.\n\n"
        f"| | case of Flink | our test | mutant |\n|---|---|---|---|\n{of_flink}\n"
    )


def unknown(untested: Mapping[int, str], marked: Sequence[Marked], mutants: Iterable[Mutant]) -> list[str]:
    """Return what is wrong with markers: a mutant that is not listed, or a case of two names or without a test."""
    ids, names = {mutant.id for mutant in mutants} | {""}, {one.entry: one.name for one in marked}
    return [
        *(f"{one.test}: no mutant {one.mutant}" for one in marked if one.mutant not in ids),
        *(f"{one.test}: case {one.entry} has two names" for one in marked if one.name != names[one.entry]),
        *(f"case {entry} has a test" for entry in untested if entry in names),
    ]


def _short(test: str) -> str:
    return test.removeprefix("tests/").replace(".py::", " ")


def _markers(file: Path, root: Path) -> Iterator[Marked]:
    text = file.read_text(encoding="utf-8")
    if "flink(" not in text:
        return
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.FunctionDef):
            continue
        for call in node.decorator_list:
            if isinstance(call, ast.Call) and ast.unparse(call.func) in ("flink", "pytest.mark.flink"):
                words = {word.arg or "": ast.literal_eval(word.value) for word in call.keywords}
                test = f"{file.relative_to(root).as_posix()}::{node.name}"
                yield Marked(test=test, name=ast.literal_eval(call.args[0]), **words)


if __name__ == "__main__":
    main()
