"""Random changes: which there are, that a seed chooses the same ones, and what becomes of each of a small package."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.random_changes.changes import Change, changes, chosen
from lab.random_changes.covering import Covering, Recorded, covering
from lab.random_changes.equivalents import Equivalent, equivalents, listed
from lab.random_changes.run import all_changes, recall, remember, still_holds
from lab.random_changes.trial import Fate, Trial, selected, tried
from tests.mutants.bench import Bench
from tests.mutants.catalogue import ROOT


pytestmark = pytest.mark.slow


FILE = "airflow_provider_ha/sums.py"
SOURCE = """
LIMIT = 3
def allowed(number):
    return number < LIMIT
def unused(number):
    return number > LIMIT
"""
TESTS = """
from airflow_provider_ha.sums import allowed

def test_limit():
    assert not allowed(3)

def test_nothing():
    assert allowed(1)
"""


def kinds(source: str) -> list[str]:
    return [change.kind for change in changes(FILE, source)]


def results(source: str) -> set[str]:
    return {change.apply(source).strip() for change in changes(FILE, source)}


@pytest.mark.parametrize(
    ("source", "changed"),
    [
        ("if a: b = c", {"if (not (a)): b = c"}),
        ("x = a < b", {"x = a <= b"}),
        ("x = a is not b", {"x = a is b"}),
        ("x = (a\n  not  in b)", {"x = (a\n  in b)"}),
        ("x = a and b or c", {"x = a or b or c", "x = a and b and c"}),
        ("x = not a", {"x = a"}),
        ("x = True", {"x = False"}),
        ("x = 7", {"x = 8", "x = (6)"}),
        ("def f():\n    raise E('ä', 1)", {"def f():\n    pass"}),
        ("def f():\n    a.b(c)", {"def f():\n    pass"}),
        ("x = [i for i in y if i]", {"x = [i for i in y if (not (i))]"}),
        ("x = 'ä' < b  # ü", {"x = 'ä' <= b  # ü"}),
    ],
)
def test_each_kind_of_change_is_found_and_leaves_the_rest_as_it_is(source: str, changed: set[str]) -> None:
    assert results(source) == changed


@pytest.mark.parametrize(
    "source",
    [
        '"""A text: 1 < 2."""',
        "log.info('%d', 1)",
        "x: Literal[1]",
        "assert a < b",
        "def __repr__(self):\n    return str(1)",
        "if TYPE_CHECKING:\n    x = 1",
        "if __name__ == '__main__':\n    main(1)",
        "@dataclass(frozen=True)\nclass A:\n    pass",
        "x = field(compare=False)",
        "x = f'{1}'",
        "while True:\n    break",
        "x = 65536",
    ],
)
def test_what_no_test_judges_is_left_alone(source: str) -> None:
    assert kinds(source) == []


def test_a_seed_chooses_the_same_changes_also_when_other_lines_come_and_go() -> None:
    before = {change.id for change in chosen(changes(FILE, SOURCE), 1, 3)}
    longer = "import os\n" + SOURCE
    other = {change.id for change in chosen(changes(FILE, SOURCE), 2, 3)}

    assert {change.id for change in chosen(changes(FILE, longer), 1, 3)} == before
    assert other != before


def test_equal_changes_of_equal_lines_are_told_apart() -> None:
    found = changes(FILE, "x = 1 + 1\nx = 1 + 1\n")

    assert len({change.id for change in found}) == len(found)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one module and its tests."""
    for variable in ("COV_CORE_SOURCE", "COV_CORE_CONFIG", "COV_CORE_DATAFILE"):  # of a run that records this one
        monkeypatch.delenv(variable, raising=False)
    root = tmp_path / "root"
    for name, text in {
        "airflow_provider_ha/__init__.py": "",
        FILE: SOURCE,
        "tests/test_sums.py": TESTS,
        "pyproject.toml": '[tool.pytest.ini_options]\naddopts = ["--import-mode=importlib"]\npythonpath = ["."]\n'
        'markers = ["long", "system", "spark"]\n',
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


@pytest.mark.hours  # several runs of pytest
def test_a_change_is_killed_survives_or_is_not_covered_by_what_was_recorded(root: Path, tmp_path: Path) -> None:
    covered = covering(root, tmp_path / "covering", print, workers=0)
    again = covering(root, tmp_path / "covering", lambda _: pytest.fail("it was recorded already"), workers=0)
    by_kind = {change.kind: change for change in changes(FILE, SOURCE)}
    bench = Bench(root, tmp_path / "copies", limit=60)
    copy = bench.copy("one")

    def fate(kind: str) -> tuple[Fate, str]:
        return tried(by_kind[kind], covered, bench, copy)[:2]

    assert fate("< to <=") == (Fate.KILLED, "tests/test_sums.py::test_limit")
    assert fate("3 to 2") == (Fate.SURVIVED, "")
    assert fate("> to >=") == (Fate.NOT_COVERED, "")
    assert (copy / FILE).read_text(encoding="utf-8") == SOURCE
    assert selected(by_kind["< to <="], again) == selected(by_kind["< to <="], covered)


def a_trial(fate: Fate) -> Trial:
    return Trial(id="x", digest="d", tests_digest="t", file=FILE, number=1, line="x = 1", kind="1 to 2", fate=fate)


@pytest.mark.parametrize(
    ("fate", "digest", "tests", "holds"),
    [
        (Fate.KILLED, "d", "other", True),
        (Fate.KILLED, "other", "t", False),
        (Fate.SURVIVED, "d", "t", True),
        (Fate.SURVIVED, "d", "other", False),
        (Fate.EQUIVALENT, "d", "t", False),
    ],
)
def test_a_result_holds_until_the_file_or_for_a_survivor_the_tests_change(
    fate: Fate, digest: str, tests: str, holds: bool
) -> None:
    assert still_holds(a_trial(fate), digest, tests) is holds


def test_of_two_results_of_one_change_the_newer_one_counts(tmp_path: Path) -> None:
    for fate in (Fate.SURVIVED, Fate.KILLED):
        remember(a_trial(fate), tmp_path / "random.jsonl")

    assert {trial.id: trial.fate for trial in recall(tmp_path / "random.jsonl")} == {"x": Fate.KILLED}


def test_the_quickest_tests_of_a_line_come_first_and_those_that_failed_not_at_all() -> None:
    record = Recorded(
        tests_digest="", digests={}, lines={FILE: {4: ["slow", "quick", "failed"]}}, seconds={"slow": 2.0, "quick": 0.1}
    )

    assert Covering({"tests/test_sums.py": record}).of_lines(FILE, [4]) == ["quick", "slow"]


def test_every_listed_equivalent_change_exists() -> None:
    entries = equivalents()
    found = all_changes(ROOT, sorted({one.file for one in entries}))

    assert [one for one in entries if not any(one.covers(change) for change in found)] == []


def test_an_equivalent_change_is_recognized_by_its_text() -> None:
    (change,) = (change for change in changes(FILE, SOURCE) if change.kind == "< to <=")
    known = [Equivalent(file=FILE, line="return number < LIMIT", kind="< to <=", why="Because.")]

    assert listed(change, known) == known[0]
    assert listed(moved(change), known) is None


def moved(change: Change) -> Change:
    return Change(**{name: getattr(change, name) for name in Change.__slots__} | {"line": "return number < OTHER"})
