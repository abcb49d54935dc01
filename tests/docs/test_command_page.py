"""The page of the command names every command that there is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from airflow_provider_ha.cli.app import app


PAGE = Path(__file__).parents[2] / "docs" / "reference" / "command.md"


def commands(group: Any, words: str = "spark-ha") -> Iterator[str]:
    """Yield each command that is not hidden, as it is typed."""
    for name, command in group.commands.items():
        if getattr(command, "commands", None):
            yield from commands(command, f"{words} {name}")
        elif not command.hidden:
            yield f"{words} {name}"


def test_every_command_has_a_row_and_no_row_names_another_one() -> None:
    rows = [row for row in PAGE.read_text().splitlines() if row.startswith("| `spark-ha ")]
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

    row = next(row for row in PAGE.read_text().splitlines() if row.startswith("| 130 |"))
    general = group.epilog.partition("130 ")[2].partition(";")[0]

    assert {f"spark-ha {words}" for words in re.findall("`(.+?)`", general)} == of_their_help
    assert {f"spark-ha {words}" for words in re.findall("`(.+?)`", row)} == of_their_help


def _command_of(group: Any, words: list[str]) -> Any:
    """Return the command of *words*."""
    for word in words:
        group = group.commands[word]
    return group
