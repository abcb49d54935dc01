"""The walk through the code in the design: every step is a module, and its caller imports it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest


ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "airflow_provider_ha"
PAGE = ROOT / "docs" / "explanation" / "design.md"
STEP = re.compile(r"^(?P<indent> *)- `(?P<module>[a-z_/]+\.py)`: ", re.MULTILINE)
INDENT = 4


def steps() -> list[tuple[str, str | None]]:
    """Return each step with the step one level out; a program has none."""
    walk = PAGE.read_text(encoding="utf-8").partition("## 7. A walk through the code")[2]
    found, above = [], list[str]()
    for match in STEP.finditer(walk):
        depth = len(match["indent"]) // INDENT
        found.append((match["module"], above[depth - 1] if depth else None))
        above[depth:] = [match["module"]]
    return found


def imported_by(module: str) -> set[str]:
    """Return the modules that one imports anywhere in it, as paths."""
    names = set[str]()
    for node in ast.walk(ast.parse((PACKAGE / module).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            names |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
    return {name.partition(".")[2].replace(".", "/") + ".py" for name in names}


def test_the_walk_tells_a_submit_a_checkpoint_and_a_restore() -> None:
    programs = [module for module, caller in steps() if caller is None]

    assert programs == [
        "operators/submit.py",
        "host/supervisor/main.py",
        "driver/bootstrap.py",
        "driver/main.py",
        "operators/restore.py",
        "driver/checkpointing/start_point.py",
    ]


@pytest.mark.parametrize("module", sorted({module for module, _ in steps()}))
def test_every_step_is_a_module(module: str) -> None:
    assert (PACKAGE / module).is_file()


@pytest.mark.parametrize(("module", "caller"), [(module, caller) for module, caller in steps() if caller is not None])
def test_every_step_is_one_module_away_from_its_caller(module: str, caller: str) -> None:
    assert module in imported_by(caller)
