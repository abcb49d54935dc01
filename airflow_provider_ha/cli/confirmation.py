"""Confirmation before a permanent removal: at a terminal only, and never on stdout, which scripts read."""

from __future__ import annotations

import sys
from collections.abc import Callable

import typer

from airflow_provider_ha.cli.session import answer
from airflow_provider_ha.errors import ConfigurationError


def confirm(stays: str, question: str, *, as_json: bool, show: Callable[[], None] = lambda: None) -> None:
    """Ask; a no ends the command with exit code 1.

    :param stays: The unchanged object, for the error without a terminal: "job 'orders' is not deleted".
    :param show: Called before the question, to print its object.
    :raises ConfigurationError: There is no terminal to ask at, or the output is JSON.
    """
    if as_json or not sys.stdin.isatty():
        raise ConfigurationError(f"{stays} without a confirmation", next_step="Add --yes")
    show()
    if not typer.confirm(question, err=True):
        answer(yes=False)
