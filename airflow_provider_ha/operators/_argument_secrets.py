"""Secrets among the arguments of a script, in Airflow: hidden in rendered templates and in logs, and warned of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_provider_ha.argument_secrets import argument_secrets, secret_names
from airflow_provider_ha.compat.sdk import BaseOperator, mask_secret


class ArgumentSecrets(BaseOperator):
    """Part of the operators that start a script; not for DAGs."""

    arguments: Sequence[str] | None = None

    def _do_render_template_fields(self, parent: Any, *args: Any, **kwargs: Any) -> None:
        """Render the templates. Airflow shows them on its pages before the task is executed.

        Airflow calls this for each task; for a mapped one it does not call ``render_template_fields`` of the operator.
        """
        super()._do_render_template_fields(parent, *args, **kwargs)
        if parent is self:  # else it is an object inside a field, and the arguments may not be rendered yet
            self._mask_arguments()

    def warn_of_argument_secrets(self) -> None:
        """Say which arguments look like secrets; never their values."""
        self._mask_arguments()
        for name in secret_names(self.argument_words()):
            self.log.warning(
                "The value of %s among the arguments looks like a secret. The job graph holds it as it is. Give it in "
                "env, for example from a connection, and let the script read that variable",
                name,
            )

    def _mask_arguments(self) -> None:
        for secret in argument_secrets(self.argument_words()):
            mask_secret(secret)

    def argument_words(self) -> list[str]:
        """Return the arguments as the script gets them."""
        return [str(argument) for argument in self.arguments or ()]
