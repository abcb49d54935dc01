"""A module that is run as a program starts when all of it is defined."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import airflow_provider_ha


PACKAGE = Path(airflow_provider_ha.__file__).parent


def starts(tree: ast.Module) -> list[int]:
    """Return where the module starts itself, counted from its end."""
    tests = [ast.unparse(node.test) if isinstance(node, ast.If) else "" for node in tree.body]
    return [len(tests) - number for number, test in enumerate(tests) if test.startswith("__name__ ==")]


PROGRAMS = {
    path: found for path in sorted(PACKAGE.rglob("*.py")) if (found := starts(ast.parse(path.read_text("utf-8"))))
}


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_nothing_is_defined_after_the_start_of_a_program(path: Path) -> None:
    assert PROGRAMS[path] == [1]
