"""The question before something goes for good: where it is asked, and what a script gets in its place."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from airflow_provider_ha.checkpoints.store.savepoints import savepoint_prefix
from airflow_provider_ha.cli import session
from airflow_provider_ha.cli.app import app
from airflow_provider_ha.cli.session import ClusterTarget


DELETE = ("delete", "savepoint", "s3://bucket/savepoints/before-upgrade")


@pytest.fixture
def removed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was removed; nothing listens at S3."""
    names: list[str] = []

    monkeypatch.setattr(savepoint_prefix, "dispose", lambda place: names.append(str(place)))
    return names


@pytest.mark.parametrize("words", [(), ("--json",)], ids=["people", "json"])
def test_a_script_is_not_asked(removed: list[str], words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(app, [*DELETE, *words], obj=ClusterTarget(), input="y\n")

    assert done.exit_code == 64
    assert "Add --yes" in done.stderr
    assert "savepoints/before-upgrade is not deleted without a confirmation" in " ".join(done.stderr.split())
    assert "for good?" not in done.stdout
    assert removed == []


@pytest.mark.parametrize("words", [(), ("--json",)], ids=["people", "json"])
def test_a_script_kills_no_driver_without_a_confirmation(words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(app, ["job", "fail-over", "orders", *words], obj=ClusterTarget(), input="y\n")

    assert done.exit_code == 64
    assert "the driver of job 'orders' is not killed without a confirmation" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("reply", "code", "gone"), [("y", 0, [DELETE[2]]), ("n", 1, [])])
def test_a_person_is_asked_on_stderr(
    removed: list[str], monkeypatch: pytest.MonkeyPatch, reply: str, code: int, gone: list[str]
) -> None:
    terminal = SimpleNamespace(isatty=lambda: True)
    monkeypatch.setattr(session, "sys", SimpleNamespace(stdin=terminal))

    done = CliRunner().invoke(app, list(DELETE), obj=ClusterTarget(), input=f"{reply}\n")

    assert done.exit_code == code
    assert "Delete savepoint s3://bucket/savepoints/before-upgrade for good?" in done.stderr
    assert "for good?" not in done.stdout
    assert removed == gone
