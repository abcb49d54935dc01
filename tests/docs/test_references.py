"""Pages about the public API, the command and the releases: each is in step with the code."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import airflow_provider_ha
from airflow_provider_ha.cli.app import app
from tests.support.checkpoints.old_formats import RELEASES
from tests.support.releases.installed import SPARKS
from tests.support.releases.shapes import SHAPES


PACKAGE = Path(airflow_provider_ha.__file__).parent
ROOT = Path(__file__).parents[2]
API_PAGE = ROOT / "docs" / "reference" / "api.md"

# Internal: they pass the names of a neighbour on.
PASSED_ON = {
    "airflow_provider_ha.airflow_side.compat.sdk",
}
_IMPORT = re.compile(r"^\s*from (airflow_provider_ha[\w.]*) import ([\w, ]+)$", re.MULTILINE)
_ROW = re.compile(r"^\| `(airflow_provider_ha[\w.]*)` \| (.*?) \|", re.MULTILINE)


def listed() -> dict[str, set[str]]:
    rows = _ROW.findall(API_PAGE.read_text(encoding="utf-8"))
    return {module: set(re.findall(r"`(\w+)`", names)) for module, names in rows}


def exported() -> dict[str, set[str]]:
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        names = exports_of(path)
        if names is not None:
            found[".".join(parts).removesuffix(".__init__")] = names
    return {module: names for module, names in found.items() if module not in PASSED_ON}


def exports_of(path: Path) -> set[str] | None:
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    return None


def pages() -> Iterator[Path]:
    yield from (ROOT / "docs").rglob("*.md")
    yield from (ROOT / "dags").rglob("*.py")
    yield ROOT / "README.md"


def test_the_page_lists_exactly_what_is_exported() -> None:
    assert listed() == exported()


def test_a_public_module_of_a_folder_for_users_exports_something() -> None:
    folders = ("operators", "sensors", "hooks")
    public = {
        f"airflow_provider_ha.{folder}.{path.stem}"
        for folder in folders
        for path in (PACKAGE / folder).glob("[!_]*.py")
    }

    assert public <= exported().keys()


@pytest.mark.parametrize("path", sorted(pages()), ids=lambda path: str(path.relative_to(ROOT)))
def test_documentation_and_examples_use_the_public_api_only(path: Path) -> None:
    used = {
        (module, name.strip())
        for module, names in _IMPORT.findall(path.read_text(encoding="utf-8"))
        for name in names.split(",")
    }
    public = listed()

    internal = {
        (module, name)
        for module, name in used
        if name not in public.get(module, ()) and f"{module}.{name}" not in public
    }

    assert internal == set()


@pytest.mark.parametrize("name", airflow_provider_ha.__all__)
def test_a_name_of_the_package_is_loaded_when_it_is_used(name: str) -> None:
    assert getattr(airflow_provider_ha, name) is not None
    assert name in dir(airflow_provider_ha)


def test_a_name_that_the_package_does_not_have_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'HaKlient'"):
        airflow_provider_ha.__getattr__("HaKlient")


def test_importing_the_package_loads_no_other_library() -> None:
    program = (
        "import sys, importlib, typing; before = set(sys.modules); import airflow_provider_ha; "
        "print(sorted({name.split('.')[0] for name in set(sys.modules) - before} - sys.stdlib_module_names))"
    )

    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert printed.strip() == "['airflow_provider_ha']"


COMMAND_PAGE = Path(__file__).parents[2] / "docs" / "reference" / "command.md"


def commands(group: Any, words: str = "spark-ha") -> Iterator[str]:
    """Yield each command that is not hidden, as it is typed."""
    for name, command in group.commands.items():
        if getattr(command, "commands", None):
            yield from commands(command, f"{words} {name}")
        elif not command.hidden:
            yield f"{words} {name}"


def test_every_command_has_a_row_and_no_row_names_another_one() -> None:
    rows = [row for row in COMMAND_PAGE.read_text().splitlines() if row.startswith("| `spark-ha ")]
    there = set(commands(get_command(app)))
    named = {command for row in rows for command in there if re.search(rf"`{command}[ `]", row.split(" | ")[0] + " ")}

    assert there - named == set()
    assert [row for row in rows if not any(re.search(rf"`{command}[ `]", row) for command in there)] == []


def test_the_general_help_names_what_ctrl_c_ends_with_130() -> None:
    """As the help of each command does, and the table of exit codes."""
    group: Any = get_command(app)
    of_their_help = {
        command for command in commands(group) if "exit 130" in _command_of(group, command.split()[1:]).help
    }

    row = next(row for row in COMMAND_PAGE.read_text().splitlines() if row.startswith("| 130 |"))
    general = group.epilog.partition("130 ")[2].partition(";")[0]

    assert {f"spark-ha {words}" for words in re.findall("`(.+?)`", general)} == of_their_help
    assert {f"spark-ha {words}" for words in re.findall("`(.+?)`", row)} == of_their_help


def _command_of(group: Any, words: list[str]) -> Any:
    """Return the command of *words*."""
    for word in words:
        group = group.commands[word]
    return group


RELEASES_PAGE = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "releases.md").read_text()
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")] for line in RELEASES_PAGE.splitlines() if line.startswith("|")
]


def test_each_shape_has_its_row_and_says_who_recorded_it() -> None:
    shapes = ROWS[ROWS.index(["Shape", "Content", "Recorded with"]) :]
    told = {row[0].strip("`"): row[2] for row in shapes if row[0].startswith("`") and len(row) == len(shapes[0])}
    expected = {}
    for shape in SHAPES:
        made = [spark.version for spark in SPARKS if shape.recorded_by(spark)]
        expected[shape.name] = f"{made[0]} to {made[-1]}" if shape.core else f"{made[0]}, {made[-1]}"
    assert told == expected


def test_each_release_has_its_row() -> None:
    releases = {row[0]: row for row in ROWS if len(row) == 5}
    for spark in SPARKS:
        assert releases[".".join(map(str, spark.short))][1].count(spark.version) == 1
    for release in RELEASES:
        assert releases[release.rpartition(".")[0]][4] == release
