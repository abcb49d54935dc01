"""An error that names options of the operators is shown with the options of the command; records stay as they are."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import airflow_provider_ha
from airflow_provider_ha.cli import console
from airflow_provider_ha.cli.app import app
from airflow_provider_ha.cli.console import option_word
from airflow_provider_ha.errors import JobStateError


PACKAGE = Path(airflow_provider_ha.__file__).parent


def test_an_error_names_the_options_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    error = JobStateError(
        "the driver is lost", next_step="if_lost='restart' ends the run", options=("if_lost", "start_from")
    )

    console.print_error(error, as_json=False)

    assert "--if-lost='restart' ends the run" in capsys.readouterr().err


def test_a_document_has_the_names_of_the_operators(capsys: pytest.CaptureFixture[str]) -> None:
    error = JobStateError("the driver is lost", next_step="if_lost='restart' ends the run", options=("if_lost",))

    console.print_error(error, as_json=True)

    assert '"next_step": "if_lost=\'restart\' ends the run"' in capsys.readouterr().out


def test_a_recorded_reason_is_shown_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    console.print_fields({"state": "FAILED", "reason": "Submit with start_from='fresh'"})

    assert "Submit with start_from='fresh'" in capsys.readouterr().out


def named_options() -> Iterator[tuple[str, str]]:
    """Yield the place and the name of each option that an error of the package carries."""
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        for call in ast.walk(ast.parse(text)) if "options=(" in text else ():
            for keyword in call.keywords if isinstance(call, ast.Call) else ():
                if keyword.arg == "options" and isinstance(keyword.value, ast.Tuple):
                    yield from ((path.name, ast.literal_eval(each)) for each in keyword.value.elts)


def test_each_named_option_is_an_option_of_a_command_that_starts_a_run() -> None:
    commands: Any = get_command(app)
    known = {
        word
        for name in ("submit", "restore")
        for parameter in commands.commands["job"].commands[name].params
        for word in parameter.opts
    }
    found = list(named_options())

    assert len(found) > 5
    assert [(place, name) for place, name in found if option_word(name) not in known] == []
