"""Writes tests/mutants/README.md: ``python -m tests.mutants.page``, after ``make mutants``.

Case, our test and mutant come from the markers and the lists; the result is the last one of ``build/mutants``. A result
of a mutant that was changed since is not shown. What has no test is listed as such. Results of checkouts that are gone
are kept beside the page, by the fingerprints of the mutants that were tried.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tests.mutants.catalogue import ROOT, Mutant, load, read_toml
from tests.mutants.marked import Marked, marked_tests
from tests.mutants.outcome import Result
from tests.mutants.run import RESULTS, recall


PAGE = ROOT / "tests" / "mutants" / "README.md"
KEPT = ROOT / "tests" / "mutants" / "results.json"  # fingerprint of a mutant -> its last result
CASES = ROOT / "tests" / "mutants" / "flink" / "cases.toml"

NO_TEST = "no test"
NOT_TRIED = "not tried"

_HEAD = """\
# Conformance and mutants

Flink's own suites hold the rules of high availability that this provider takes over. The first table says for each of
their cases which of our tests holds the rule, on our pieces and in our words, and which mutant belongs to it. A case
without a test is listed as well.

A mutant is one change of the package that breaks one rule. It names a guard: a statement that carries the comment
`# guard: <id>`, in Java a line with `// guard: <id>`. `make mutants` applies each mutant to a copy and runs the test
that must notice. A test that could not run, or that fails without the change too, has killed nothing.

Beside the list, `make mutants RANDOM=n SEED=s` changes the package at random: a condition is negated, a comparison
shifted, a `raise` or a call dropped, `and` and `or` swapped, a boolean or a small number changed. Each change is tried
with the quick tests that execute its line. Two samples of 120 (seed 11): the first one of an earlier tree, of
coordination, pointers, formats, restore, jobs and submit; the second one of these and the driver:

| result | first | second |
|---|---|---|
| killed by the quick tests as they were | 87 | 99 |
| survived, or no quick test executed the line; a new test kills it | 28 | 7 |
| no quick test executed the line, which runs in another process; one of the mutants below is the change | | 6 |
| survived: code that was not needed, removed | | 3 |
| no test can see it: listed with its reason in `tests/mutants/random_changes/equivalent.toml` | 5 | 5 |

This page is made by `python -m tests.mutants.page` from the tests' markers, the lists in `tests/mutants` and the
results of the last `make mutants`. A test holds that it is in step.
"""


def main() -> None:
    """Write the page."""
    mutants = load()
    results = kept(json.loads(KEPT.read_text(encoding="utf-8")), recall(RESULTS), mutants)
    KEPT.write_text(json.dumps(results, indent=0, sort_keys=True) + "\n", encoding="utf-8")
    PAGE.write_text(page(cases(), marked_tests(), mutants, results), encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)} is written")


def kept(earlier: Mapping[str, str], newer: Iterable[Result], mutants: Sequence[Mutant]) -> dict[str, str]:
    """Return fingerprint -> result of each mutant that was tried as it is now. Pure.

    :param earlier: Fingerprint -> result, of other checkouts.
    :param newer: Of this one.
    """
    known = {**earlier, **{result.fingerprint: result.outcome.value for result in newer}}
    return {mutant.fingerprint: known[mutant.fingerprint] for mutant in mutants if mutant.fingerprint in known}


def cases() -> dict[int, str]:
    """Return entry -> test of Flink."""
    listed = read_toml(CASES)["cases"]
    return {int(entry): str(name) for entry, name in listed.items()}


def page(
    listed: Mapping[int, str], marked: Sequence[Marked], mutants: Sequence[Mutant], results: Mapping[str, str]
) -> str:
    """Return the page's text. Pure.

    :param results: Fingerprint of a mutant -> its result.
    """
    shown = {mutant.id: results.get(mutant.fingerprint, NOT_TRIED) for mutant in mutants}
    tested = {one.entry for one in marked}
    of_flink = "\n".join(row for entry in sorted(listed) for row in _case_rows(entry, listed[entry], marked, shown))
    of_ours = "\n".join(_mutant_row(mutant, shown) for mutant in mutants)
    killed = sum(result == "killed" for result in shown.values())
    tried = sum(result != NOT_TRIED for result in shown.values())
    return (
        f"{_HEAD}\n## Flink's cases\n\n{len(tested & listed.keys())} of {len(listed)} cases have a test.\n\n"
        f"| | case of Flink | our test | mutant | result |\n|---|---|---|---|---|\n{of_flink}\n\n"
        "## Mutants\n\nRules are those of the [design](../../docs/explanation/design.md#4-contracts), or of Flink: H of"
        " pointers and payloads, C of\ncheckpoints, I of their numbers, J of job graphs, L of leadership, P of"
        " ownership, R of results.\n\n"
        f"{len(mutants)} are listed, {tried} were tried as they are now, {killed} of these were killed.\n\n"
        f"| mutant | rule | what would go wrong | test that kills it | result |\n|---|---|---|---|---|\n{of_ours}\n"
    )


def without_results(text: str) -> list[list[str]]:
    """Return the cells of a page's tables without the last column: what has to be in step at any time."""
    return [row.strip("| ").split(" | ")[:-1] for row in text.splitlines() if row.startswith("| ")]


def unknown(listed: Mapping[int, str], marked: Iterable[Marked], mutants: Iterable[Mutant]) -> list[str]:
    """Return what the markers name and no list holds."""
    ids = {mutant.id for mutant in mutants}
    return [
        *(f"{one.test}: no case {one.entry}" for one in marked if one.entry not in listed),
        *(f"{one.test}: no mutant {one.mutant}" for one in marked if one.mutant and one.mutant not in ids),
    ]


def _case_rows(entry: int, case: str, marked: Sequence[Marked], shown: Mapping[str, str]) -> list[str]:
    own = [one for one in marked if one.entry == entry]
    if not own:
        return [f"| {entry} | `{case}` | {NO_TEST} | | |"]
    return [
        f"| {entry} | `{case}` | {_test(one.test)} | {_mutant(one.mutant)} | {shown.get(one.mutant or '', '')} |"
        for one in own
    ]


def _mutant_row(mutant: Mutant, shown: Mapping[str, str]) -> str:
    why = mutant.why.replace("|", "or")
    return f"| `{mutant.id}` | {mutant.rule} | {why} | {_test(mutant.test)} | {shown[mutant.id]} |"


def _test(node: str) -> str:
    file, _, test = node.removeprefix("tests/").partition("::")
    return f"`{Path(file).with_suffix('')}` `{test}`"


def _mutant(name: str | None) -> str:
    return f"`{name}`" if name else ""


if __name__ == "__main__":
    main()
