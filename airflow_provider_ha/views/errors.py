"""An error as every command with ``--json`` prints it."""

from __future__ import annotations

from airflow_provider_ha.errors import HaError
from airflow_provider_ha.views.view import View


class ErrorView(View):
    """An error, and the next step.

    :param type: Class of the error (page Errors).
    :param message: The object and the reason.
    :param next_step: Steps that resolve the problem; empty if unknown.
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
