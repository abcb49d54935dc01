"""A record that is there and cannot be read."""

from __future__ import annotations

from airflow_provider_ha.views.view import View


class UnreadableView(View):
    """A record that a list has found and could not read: it may be the newest.

    :param name: Name of its node (the digits of a checkpoint, the id of a savepoint), or its key in storage.
    :param reason: Why it cannot be read.
    """

    name: str
    reason: str
