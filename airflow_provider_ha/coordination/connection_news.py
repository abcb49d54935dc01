"""Log lines about a connection to ZooKeeper: one for each change, none for an orderly end.

Several attempts to connect are no change, and are not logged: an outage of an hour is two lines.
"""

from __future__ import annotations

import logging
import time

from airflow_provider_ha.coordination.coordinator import SessionCredentials, SessionState


_log = logging.getLogger(__name__)


class ConnectionNews:
    """Logger of a connection's state changes. Called only by the thread that receives them.

    :param hosts: Addresses of the ensemble.
    """

    def __init__(self, hosts: str) -> None:
        self._hosts = hosts
        self._session: SessionCredentials | None = None
        self._since: float | None = None

    def changed(
        self, state: SessionState, session: SessionCredentials | None, reason: str, *, refused: bool = False
    ) -> None:
        """Log one change.

        :param session: The session now; ``None`` when it is lost.
        :param reason: Why the connection was lost.
        :param refused: Whether the servers do not accept our credentials.
        """
        if state is SessionState.CONNECTED:
            _log.info("%s", self._connected(session))
            self._session, self._since = session, None
            return
        self._since = time.monotonic() if self._since is None else self._since
        if refused:
            _log.warning("ZooKeeper (%s) refuses the session: %s", self._hosts, reason or "no reason was given")
        elif state is SessionState.LOST:
            _log.warning("the ZooKeeper session %s with %s has expired", _id(self._session), self._hosts)
        else:
            why = f": {reason}" if reason else ""
            _log.warning(
                "the connection to ZooKeeper (%s) is interrupted%s; connecting again, session %s",
                self._hosts,
                why,
                _id(self._session),
            )

    def _connected(self, session: SessionCredentials | None) -> str:
        if self._since is None:
            return f"connected to ZooKeeper ({self._hosts}), session {_id(session)}"
        after = f"connected to ZooKeeper ({self._hosts}) again after {time.monotonic() - self._since:.1f} s"
        same = self._session is not None and session is not None and session.session_id == self._session.session_id
        return f"{after}, session {_id(session)}" + (" goes on" if same else " is a new one")


def _id(session: SessionCredentials | None) -> str:
    return "none" if session is None else f"0x{session.session_id:x}"
