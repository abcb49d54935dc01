"""The example DAGs that were copied."""

from __future__ import annotations

from airflow_provider_ha.views.view import Text, View


class CopiedView(View):
    """The result of a copy of the examples.

    :param directory: Where they are.
    :param written: Files that are new or were replaced, relative to the directory.
    :param unchanged: Files that were there already with the same content.
    """

    directory: Text
    written: tuple[str, ...]
    unchanged: tuple[str, ...]
