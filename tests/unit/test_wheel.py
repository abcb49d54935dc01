"""The wheel that tests install is built once, until what it is made from changes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support import wheel


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository of one module."""
    for name in ("pyproject.toml", "README.md", "LICENSE", "airflow_provider_ha/a.py", "dags/d.py", "java/S.java"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name, encoding="utf-8")
    return tmp_path


@pytest.fixture
def builds(root: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Number of each build; pip is not started."""
    found: list[int] = []

    def build(command: list[str], **_: object) -> None:
        found.append(len(found))
        (root / "dist" / f"a-{len(found)}.whl").write_bytes(b"")

    monkeypatch.delenv(wheel.GIVEN, raising=False)
    monkeypatch.setattr(subprocess, "run", build)
    return found


def test_it_is_built_once(root: Path, builds: list[int]) -> None:
    assert wheel.wheel(root) == wheel.wheel(root) == root / "dist" / "a-1.whl"
    assert len(builds) == 1


@pytest.mark.parametrize(
    "name", ["pyproject.toml", "README.md", "airflow_provider_ha/a.py", "dags/new.py", "java/S.java"]
)
def test_it_is_built_again_when_something_in_it_changes(name: str, root: Path, builds: list[int]) -> None:
    wheel.wheel(root)
    (root / name).write_text("changed", encoding="utf-8")

    assert wheel.wheel(root) == root / "dist" / "a-2.whl"
    assert len(list((root / "dist").glob("*.whl"))) == 1


def test_compiled_files_are_no_change(root: Path, builds: list[int]) -> None:
    wheel.wheel(root)
    (root / "airflow_provider_ha" / "__pycache__").mkdir()
    (root / "airflow_provider_ha" / "__pycache__" / "a.pyc").write_bytes(b"")
    wheel.wheel(root)

    assert len(builds) == 1


def test_the_jar_is_no_change_since_it_is_made_from_sources(root: Path, builds: list[int]) -> None:
    wheel.wheel(root)
    (root / "airflow_provider_ha" / "component.jar").write_bytes(b"")
    wheel.wheel(root)

    assert len(builds) == 1


def test_a_wheel_that_was_built_elsewhere_is_taken(
    root: Path, builds: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(wheel.GIVEN, "/elsewhere/a.whl")

    assert wheel.wheel(root) == Path("/elsewhere/a.whl")
    assert builds == []
