"""The ephemeral nodes by which waits are shown to people (``jobs.presence``), as one session of a triggerer keeps them.

What goes wrong here is no trouble of the wait: it is tried again a moment later. When the session ends, ZooKeeper
removes the nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from airflow_provider_ha.coordination.coordinator import Coordinator, Create, Delete
from airflow_provider_ha.errors import HaError, NodeExistsError, NodeMissingError, NotConnectedError
from airflow_provider_ha.jobs.presence import Announcement


_AT_ONCE = 100  # in one transaction
_AT_MOST = 500  # made by one call: others want the session as well


class Announcements:
    """What is announced in one session. For one thread at a time.

    :param coordinator: The session.
    """

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._made: set[str] = set()

    def keep(self, wanted: Iterable[Announcement]) -> None:
        """Make the nodes that are missing and remove those that are over. Raises nothing."""
        by_path = {announced.path: announced for announced in wanted}
        over = [Delete(path) for path in self._made if path not in by_path]
        new = [announced for path, announced in by_path.items() if path not in self._made][:_AT_MOST]
        try:
            self._made.difference_update(self._applied(over))
            parents = {announced.parent for announced in new if announced.parent is not None}
            self._coordinator.ensure(*parents)
            self._made.update(self._applied([announced.create() for announced in new]))
        except HaError:
            return

    def _applied(self, writes: Sequence[Create] | Sequence[Delete]) -> Iterable[str]:
        """Yield the nodes that are as they shall be; together where all can be written, else one by one."""
        for start in range(0, len(writes), _AT_ONCE):
            some = writes[start : start + _AT_ONCE]
            try:
                self._coordinator.commit(*some)
            except NotConnectedError:
                raise
            except HaError:
                yield from (write.path for write in some if self._is_applied(write))
            else:
                yield from (write.path for write in some)

    def _is_applied(self, write: Create | Delete) -> bool:
        try:
            self._coordinator.commit(write)
        except NodeExistsError:
            return True  # its own: an answer was lost
        except NodeMissingError:
            return isinstance(write, Delete)  # it is gone; or the job of a new one is
        return True
