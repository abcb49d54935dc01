"""The page of mutants and cases is in step with the lists, the recorded results and the tests' markers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants import page
from tests.mutants.catalogue import ROOT, Mutant, load
from tests.mutants.page import Marked


MUTANT = Mutant(
    id="no-check",
    guard="check",
    file="airflow_provider_ha/clock.py",
    old="a",
    new="b",
    test="tests/unit/test_a.py::test_kills[1]",
    why="Everything would be lost.",
)
MARKED = Marked(1, "tests/unit/test_a.py::test_holds", "SomeTest#testIt", "no-check")


@pytest.fixture(scope="module")
def marked() -> list[Marked]:
    return page.marked_tests()


def test_every_mutant_of_a_marker_is_listed_and_every_case_has_one_name(marked: list[Marked]) -> None:
    assert page.unknown(page.without_a_test(), marked, load()) == []


def test_the_page_is_in_step(marked: list[Marked]) -> None:
    """Run ``python -m tests.mutants.page``."""
    written = page.PAGE.read_text(encoding="utf-8")

    assert written == page.page(page.without_a_test(), marked, load(), page.recorded())


def test_every_result_belongs_to_a_mutant() -> None:
    assert page.recorded().keys() <= {mutant.fingerprint for mutant in load()}


def test_every_mutant_names_a_test_that_is_there() -> None:
    missing = []
    for mutant in load():
        file, _, test = mutant.test.partition("::")
        path = ROOT / file
        name = test.rpartition("::")[2].partition("[")[0]
        if not path.exists() or f"def {name}(" not in path.read_text(encoding="utf-8"):
            missing.append(mutant.id)

    assert missing == []


def test_a_mutant_shows_its_result_and_a_case_its_test_and_mutant() -> None:
    text = page.page({}, [MARKED], [MUTANT], {MUTANT.fingerprint: "killed"})

    assert "| `no-check` | Everything would be lost. | killed |" in text
    assert "| 1 | `SomeTest#testIt` | `unit/test_a test_holds` | `no-check` |" in text


def test_a_case_without_a_test_is_listed_as_such() -> None:
    text = page.page({2: "SomeTest#testThat"}, [MARKED], [MUTANT], {})

    assert "| 2 | `SomeTest#testThat` | no test |  |" in text
    assert "1 of\n2 cases have a test." in text


def test_the_result_of_a_mutant_that_was_changed_is_not_shown() -> None:
    changed = MUTANT.model_copy(update={"new": "c"})

    assert "| not tried |" in page.page({}, [], [changed], {MUTANT.fingerprint: "killed"})


@pytest.mark.parametrize(
    ("untested", "other"),
    [
        ({}, Marked(2, "tests/test_b.py::test_b", "SomeTest#testThat", "gone")),
        ({}, Marked(1, "tests/test_b.py::test_b", "SomeTest#testThat")),
        ({1: "SomeTest#testIt"}, MARKED),
    ],
    ids=["no-such-mutant", "two-names", "a-test-after-all"],
)
def test_markers_that_lead_nowhere_are_found(untested: dict[int, str], other: Marked) -> None:
    assert len(page.unknown(untested, [MARKED, other], [MUTANT])) == 1


def test_markers_are_read_from_the_source_of_the_tests(tmp_path: Path) -> None:
    folder = tmp_path / "tests"
    folder.mkdir()
    (folder / "test_plain.py").write_text("raise RuntimeError\n", encoding="utf-8")
    (folder / "test_marked.py").write_text(
        "@flink('B#b', entry=2)\n"
        "@pytest.mark.flink('A#a', entry=1, mutant='m')\n"
        "@pytest.mark.parametrize('number', [1, 2])\n"
        "def test_it(number): pass\n",
        encoding="utf-8",
    )

    assert page.marked_tests(tmp_path) == [
        Marked(1, "tests/test_marked.py::test_it", "A#a", "m"),
        Marked(2, "tests/test_marked.py::test_it", "B#b"),
    ]
