"""The page of conformance is in step with the tests' markers and the lists of mutants."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants import page
from tests.mutants.catalogue import ROOT, Mutant, load
from tests.mutants.marked import Marked, marked_tests
from tests.mutants.outcome import Outcome, Result


MUTANT = Mutant(
    id="no-check",
    rule="H3",
    file="airflow_provider_ha/clock.py",
    old="a",
    new="b",
    test="tests/unit/test_a.py::test_kills[1]",
    why="Everything would be lost.",
)
MARKED = Marked(test="tests/unit/test_a.py::test_holds", name="SomeTest#testIt", entry=1, mutant="no-check")
KILLED = Result(id="no-check", fingerprint=MUTANT.fingerprint, outcome=Outcome.KILLED, seconds=1)


@pytest.fixture(scope="module")
def marked() -> list[Marked]:
    return marked_tests()


def test_every_case_and_mutant_of_a_marker_is_listed(marked: list[Marked]) -> None:
    assert page.unknown(page.cases(), marked, load()) == []


def test_the_page_is_in_step(marked: list[Marked]) -> None:
    """Run ``python -m tests.mutants.page``; the results are those of the last ``make mutants``."""
    written = page.PAGE.read_text(encoding="utf-8")
    made = page.page(page.cases(), marked, load(), {})

    assert page.without_results(written) == page.without_results(made)


def test_every_mutant_names_a_test_that_is_there() -> None:
    missing = []
    for mutant in load():
        file, _, test = mutant.test.partition("::")
        path = ROOT / file
        name = test.rpartition("::")[2].partition("[")[0]
        if not path.exists() or f"def {name}(" not in path.read_text(encoding="utf-8"):
            missing.append(mutant.id)

    assert missing == []


def test_a_case_shows_its_test_its_mutant_and_the_result() -> None:
    text = page.page({1: "SomeTest#testIt"}, [MARKED], [MUTANT], page.kept({}, [KILLED], [MUTANT]))

    assert "| 1 | `SomeTest#testIt` | `unit/test_a` `test_holds` | `no-check` | killed |" in text
    assert "| `no-check` | H3 | Everything would be lost. | `unit/test_a` `test_kills[1]` | killed |" in text


def test_a_case_without_a_test_is_listed_as_such() -> None:
    text = page.page({1: "SomeTest#testIt", 2: "SomeTest#testThat"}, [MARKED], [MUTANT], {})

    assert "| 2 | `SomeTest#testThat` | no test | | |" in text
    assert "1 of 2 cases have a test." in text


def test_the_result_of_a_mutant_that_was_changed_is_not_shown() -> None:
    changed = MUTANT.model_copy(update={"new": "c"})

    text = page.page({}, [], [changed], page.kept({}, [KILLED], [changed]))

    assert "killed |" not in text
    assert page.NOT_TRIED in text


def test_a_result_of_another_checkout_is_kept_until_there_is_a_newer_one() -> None:
    survived = {MUTANT.fingerprint: "survived"}

    assert page.kept(survived, [], [MUTANT]) == survived
    assert page.kept(survived, [KILLED], [MUTANT]) == {MUTANT.fingerprint: "killed"}
    assert page.kept(survived, [], []) == {}


def test_only_the_results_may_differ() -> None:
    before = page.page({1: "SomeTest#testIt"}, [MARKED], [MUTANT], {})
    after = page.page({1: "SomeTest#testIt"}, [MARKED], [MUTANT], {KILLED.fingerprint: "killed"})
    another = page.page({1: "SomeTest#testIt"}, [], [MUTANT], {KILLED.fingerprint: "killed"})

    assert page.without_results(before) == page.without_results(after)
    assert page.without_results(before) != page.without_results(another)


def test_markers_that_lead_nowhere_are_found() -> None:
    lost = MARKED.model_copy(update={"entry": 7, "mutant": "gone"})

    assert len(page.unknown({1: "SomeTest#testIt"}, [MARKED, lost], [MUTANT])) == 2


def test_marked_tests_are_collected_with_all_their_markers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    folder = tmp_path / "tests"
    folder.mkdir()
    (folder / "test_plain.py").write_text("raise RuntimeError\n", encoding="utf-8")
    (folder / "test_marked.py").write_text(
        "import pytest\n"
        "@pytest.mark.flink('B#b', entry=2)\n"
        "@pytest.mark.flink('A#a', entry=1, mutant='m')\n"
        "@pytest.mark.parametrize('number', [1, 2])\n"
        "def test_it(number): pass\n",
        encoding="utf-8",
    )

    found = marked_tests(tmp_path)

    assert found == [
        Marked(test="tests/test_marked.py::test_it", name="A#a", entry=1, mutant="m"),
        Marked(test="tests/test_marked.py::test_it", name="B#b", entry=2),
    ]
