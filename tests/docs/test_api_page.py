"""The page about the public API lists what the modules export, and the documentation uses nothing else."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import airflow_provider_ha


PACKAGE = Path(airflow_provider_ha.__file__).parent
ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "api.md"
# Internal: they pass the names of a neighbour on.
PASSED_ON = {
    "airflow_provider_ha.airflow_side.compat.sdk",
}
_IMPORT = re.compile(r"^\s*from (airflow_provider_ha[\w.]*) import ([\w, ]+)$", re.MULTILINE)
_ROW = re.compile(r"^\| `(airflow_provider_ha[\w.]*)` \| (.*?) \|", re.MULTILINE)


def listed() -> dict[str, set[str]]:
    rows = _ROW.findall(PAGE.read_text(encoding="utf-8"))
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
