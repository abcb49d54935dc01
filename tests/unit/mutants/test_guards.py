"""Guards and their mutants, and the page that lists them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants import page
from tests.mutants.catalogue import ROOT, CatalogueError, Mutant, load
from tests.mutants.guards import Guard, GuardError, Source, guarded_files
from tests.mutants.page import Marked


MODULE = '''\
"""Numbers."""
@cached  # guard: cached
def allowed(number):
    if number < 3:  # guard: limit
        return number < 3
    # guard: sum
    total = plus(
        number,
        number,
    )
    try:
        total = plus(number, 3)  # guard: again
    except ValueError:  # guard: error
        total = 3
    else:  # guard: otherwise
        total += 3
    return total
'''
PLAIN = '''\
"""Numbers."""
@cached
def allowed(number):
    if number < 3:
        return number < 3
    total = plus(
        number,
        number,
    )
    try:
        total = plus(number, 3)
    except ValueError:
        total = 3
    else:
        total += 3
    return total
'''


@pytest.fixture
def source() -> Source:
    return Source.of(MODULE)


def lines(source: Source, places: list[int]) -> list[int]:
    return [source.text.count("\n", 0, place) + 1 for place in places]


def test_every_mutant_finds_its_statement_once() -> None:
    mutants = load()
    sources = {file: Source.read(ROOT / file) for file in {mutant.file for mutant in mutants}}

    found = {mutant.id: len(mutant.places(sources[mutant.file])) for mutant in mutants}

    assert {name: number for name, number in found.items() if number != 1} == {}


def test_every_guard_has_a_mutant() -> None:
    assert guarded_files(ROOT).keys() - {mutant.guard for mutant in load()} == set()


def test_the_text_without_guards_is_what_it_would_be_without_them(source: Source) -> None:
    assert source.text == PLAIN


def test_a_guard_marks_its_own_line_or_the_next_one(source: Source) -> None:
    assert source.guards[:3] == (Guard("cached", 2), Guard("limit", 4), Guard("sum", 6))


def test_what_only_looks_like_a_guard_stays() -> None:
    text = 'x = "# guard: Not-one"\n# guard: two words\ny = 1#guard: z\n'

    assert Source.of(text) == Source(text, ())


@pytest.mark.parametrize(
    ("guard", "old", "expected"),
    [
        pytest.param("limit", "number < 3", [4], id="the-head-of-a-statement-with-a-body"),
        pytest.param("limit", "return", [], id="not-its-body"),
        pytest.param("sum", "number", [7, 8], id="every-line-of-a-statement"),
        pytest.param("again", "number, 3", [11], id="not-what-stands-elsewhere"),
        pytest.param("cached", "allowed", [3], id="a-definition-with-its-decorators"),
        pytest.param("error", "ValueError", [12], id="the-head-of-a-handler"),
        pytest.param("otherwise", "else:\n        total += 3", [14], id="a-text-that-goes-on"),
        pytest.param("otherwise", "total", [], id="a-branch-is-a-line-by-itself"),
        pytest.param("error", "\n    except", [11], id="the-line-feed-before-it"),
        pytest.param("unknown", "number", [], id="no-such-guard"),
    ],
)
def test_a_text_has_to_begin_in_the_guarded_statement(
    source: Source, guard: str, old: str, expected: list[int]
) -> None:
    assert lines(source, source.places(old, guard)) == expected


def test_a_mutant_changes_its_statement_alone(source: Source) -> None:
    mutant = a_mutant(guard="again", old="3", new="4")

    assert mutant.apply(source) == PLAIN.replace("plus(number, 3)", "plus(number, 4)")


def test_a_guard_that_marks_two_statements_is_refused(tmp_path: Path) -> None:
    package = tmp_path / "airflow_provider_ha"
    package.mkdir()
    (package / "a.py").write_text("x = 1  # guard: one\n", encoding="utf-8")
    (package / "b.py").write_text("x = 1  # guard: one\n", encoding="utf-8")

    with pytest.raises(GuardError, match=r"`one`: in airflow_provider_ha/a\.py and in airflow_provider_ha/b\.py"):
        guarded_files(tmp_path)
    with pytest.raises(CatalogueError):
        load(tmp_path, root=tmp_path)


def test_the_file_of_a_mutant_is_where_its_guard_stands(tmp_path: Path) -> None:
    package = tmp_path / "airflow_provider_ha"
    package.mkdir()
    (package / "a.py").write_text("x = 1  # guard: one\n", encoding="utf-8")
    (tmp_path / "list.toml").write_text(LISTED, encoding="utf-8")

    assert [mutant.file for mutant in load(tmp_path, root=tmp_path)] == ["airflow_provider_ha/a.py"]


def test_in_java_a_statement_is_the_line_that_is_marked(tmp_path: Path) -> None:
    file = tmp_path / "java" / "src" / "A.java"
    file.parent.mkdir(parents=True)
    file.write_text("if (a) {\n  // guard: one\n  if (a) {\n  }\n  if (a) {\n", encoding="utf-8")
    mutant = a_mutant(guard="one", old="if (a)", new="if (b)")

    assert guarded_files(tmp_path) == {"one": "java/src/A.java"}
    assert mutant.apply(Source.read(file)) == "if (a) {\n  if (b) {\n  }\n  if (a) {\n"


def test_a_mutant_whose_guard_has_its_name_need_not_say_so(tmp_path: Path) -> None:
    (tmp_path / "list.toml").write_text(LISTED.replace('guard = "one"\n', ""), encoding="utf-8")

    assert [(mutant.guard, mutant.file) for mutant in load(tmp_path, root=tmp_path)] == [("two", "")]


def test_a_list_names_no_file(tmp_path: Path) -> None:
    (tmp_path / "list.toml").write_text(f'{LISTED}file = "airflow_provider_ha/a.py"\n', encoding="utf-8")

    with pytest.raises(CatalogueError, match="file"):
        load(tmp_path, root=tmp_path)


def test_a_result_stays_when_the_file_is_moved() -> None:
    before, after = (a_mutant(guard="one", file=f"airflow_provider_ha/{name}.py", old="a", new="b") for name in "ab")

    assert before.fingerprint == after.fingerprint


LISTED = """
[[mutant]]
id = "two"
guard = "one"
old = "1"
new = "2"
test = "tests/test_a.py::test_a"
why = "Because."
"""


def a_mutant(**fields: str) -> Mutant:
    return Mutant.model_validate({"id": "x", "file": "", "test": "tests/a.py::test_a", "why": "Because."} | fields)


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
