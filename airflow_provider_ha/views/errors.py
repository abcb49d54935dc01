"""An error as every command with ``--json`` prints it."""

from __future__ import annotations

from airflow_provider_ha.errors import HaError
from airflow_provider_ha.views.view import View


class ErrorView(View):
    """What is wrong, and what to do.

    :param type: Class of the error (page Errors).
    :param message: What is wrong.
    :param next_step: What to do about it; empty where nothing is known to help.
    """

    type: str
    message: str
    next_step: str


class ErrorDocument(View):
    """In place of any other document: the command has failed.

    :param error: The error.
    """

    error: ErrorView


def error_view(error: HaError) -> ErrorView:
    """Return an error for programs."""
    return ErrorView(type=type(error).__name__, message=error.message, next_step=error.next_step)
