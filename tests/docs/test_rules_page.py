"""Every code of a rule is defined on the page about rules, and every definition is used."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest


ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "rules.md"
_CODE = re.compile(r"\b[HCIJLRP]\d{1,2}\b")
_ROW = re.compile(r"^\| ([A-Z]\d+) \| (.+) \| (.+) \| `(.+)` \|$", re.MULTILINE)
ROWS = _ROW.findall(PAGE.read_text(encoding="utf-8"))
DEFINED = [code for code, *_ in ROWS]


def sources() -> Iterator[Path]:
    yield from (ROOT / "airflow_provider_ha").rglob("*.py")
    yield from (ROOT / "tests").rglob("*.py")
    yield from (ROOT / "tests" / "mutants").rglob("*.toml")


def codes_in(path: Path) -> set[str]:
    return set(_CODE.findall(path.read_text(encoding="utf-8")))


def test_every_code_in_use_is_defined() -> None:
    undefined = {str(path.relative_to(ROOT)): codes_in(path) - set(DEFINED) for path in sources()}

    assert {path: codes for path, codes in undefined.items() if codes} == {}


def test_every_defined_code_is_in_use() -> None:
    used = set[str]().union(*(codes_in(path) for path in sources()))

    assert set(DEFINED) <= used


def test_a_code_is_defined_once() -> None:
    assert sorted(DEFINED) == sorted(set(DEFINED))


@pytest.mark.parametrize(("code", "test"), [(code, test) for code, _, _, test in ROWS])
def test_the_test_of_a_rule_is_there(code: str, test: str) -> None:
    assert (ROOT / test).is_file()
