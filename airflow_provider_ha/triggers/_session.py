"""One session with ZooKeeper, and what the triggers that share it watch and announce through it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from airflow_provider_ha.coordination.coordinator import SessionState
from airflow_provider_ha.triggers._announcements import Announcements
from airflow_provider_ha.triggers._watched_nodes import WatchedNodes


if TYPE_CHECKING:
    from airflow_provider_ha.control.client import HaClient


class Session:
    """A client with what is watched and announced through it. Used from threads.

    :param wake: Called with the path of a node that may have changed; with ``None`` when all may have.
    """

    def __init__(self, client: HaClient, wake: Callable[[str | None], None]) -> None:
        self.client = client
        self.lost = False
        self.nodes = WatchedNodes(client.coordinator, wake)
        self.announcements = Announcements(client.coordinator)
        self._wake = wake
        client.coordinator.add_state_listener(self._state_changed)

    def close(self) -> None:
        """End the session."""
        self.client.close()

    def _state_changed(self, state: SessionState) -> None:
        if state is SessionState.LOST:
            self.lost = True
        self._wake(None)
