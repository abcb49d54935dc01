"""The question before something goes for good: where it is asked, and what a script gets in its place."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from airflow_provider_ha.cli import savepoint_s3, session
from airflow_provider_ha.cli.app import app
from airflow_provider_ha.cli.session import ClusterTarget


DISPOSE = ("savepoint", "dispose", "s3://bucket/savepoints/before-upgrade")


@pytest.fixture
def removed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was removed; nothing listens at S3."""
    names: list[str] = []

    def note(_: object, name: str, **options: Any) -> Any:
        del options
        names.append(name)
        return SimpleNamespace(in_use_by=(), removed=0, size=0, kept=0, young=0)

    monkeypatch.setattr(savepoint_s3, "Pool", lambda place: place)
    monkeypatch.setattr(savepoint_s3, "dispose_of", note)
    return names


@pytest.mark.parametrize("words", [(), ("--json",)], ids=["people", "json"])
def test_a_script_is_not_asked(removed: list[str], words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(app, [*DISPOSE, *words], obj=ClusterTarget(), input="y\n")

    assert done.exit_code == 64
    assert "Add --yes" in done.stderr
    assert "savepoints/before-upgrade is not removed without a confirmation" in " ".join(done.stderr.split())
    assert "for good?" not in done.stdout
    assert removed == []


@pytest.mark.parametrize(("reply", "code", "gone"), [("y", 0, ["before-upgrade"]), ("n", 1, [])])
def test_a_person_is_asked_on_stderr(
    removed: list[str], monkeypatch: pytest.MonkeyPatch, reply: str, code: int, gone: list[str]
) -> None:
    terminal = SimpleNamespace(isatty=lambda: True)
    monkeypatch.setattr(session, "sys", SimpleNamespace(stdin=terminal))

    done = CliRunner().invoke(app, list(DISPOSE), obj=ClusterTarget(), input=f"{reply}\n")

    assert done.exit_code == code
    assert "Remove savepoint s3://bucket/savepoints/before-upgrade for good?" in done.stderr
    assert "for good?" not in done.stdout
    assert removed == gone
