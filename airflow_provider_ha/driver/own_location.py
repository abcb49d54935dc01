"""A checkpoint location that a script, or the conf of its job, names itself.

A managed query works in the directory of its epoch, so the location is not used. It may hold the past of the query,
though: a script that has run elsewhere until now still names it. Without a check such a query would start without its
past, read its input again and write its output twice.

Invariant: a query with a named location that holds a committed batch, or is unreadable, never starts without its past,
unless its user has requested that with ``start_from="fresh"``. The location is only read.
"""

from __future__ import annotations

import logging
from typing import Any

from airflow_provider_ha.checkpoints.connectors.places import Reach, output_place
from airflow_provider_ha.checkpoints.format.layout import progress, queries
from airflow_provider_ha.driver.spark_conf import CHECKPOINT_LOCATION
from airflow_provider_ha.driver.way_forward import beside_other_queries, from_own_location
from airflow_provider_ha.driver.writer_notes import WriterNotes
from airflow_provider_ha.errors import ApplicationRefusedError, HaError


log = logging.getLogger(__name__)

OPTION = "checkpointlocation"  # as the notes have it


def take_location(session: Any, location: str) -> str | None:
    """Give a session the job's location; return the script's own location, ``None`` without one.

    :param location: URI of the epoch's working directory.
    """
    found: str | None = session.conf.get(CHECKPOINT_LOCATION, None)
    if found == location:
        return None
    session.conf.set(CHECKPOINT_LOCATION, location)
    return found


class OwnLocations:
    """Checks the locations that the queries of a run name.

    :param reach: Access to the file systems of the locations.
    :param root: The location in the Spark conf of the job, parent of all queries' locations; ``None`` without one.
    :param begins: Whether a query without a batch in the job starts without a past, and its user has not requested it.
    """

    def __init__(self, reach: Reach, *, root: str | None = None, begins: bool = False) -> None:
        self._reach = reach
        self._root = root
        self._begins = begins

    def check(
        self, query: str, noted: WriterNotes, root: str | None, sink: str | None, *, empty: bool, restored: bool = False
    ) -> None:
        """Refuse a query that would start without its existing past.

        :param root: The location that the script gave to its session.
        :param sink: The name of its sink in a request to adopt a checkpoint.
        :param empty: Whether the query has no batch in the job.
        :param restored: Whether the run continues from a checkpoint, in which other queries have their past.
        :raises ApplicationRefusedError: It would; names the two ways to continue.
        """
        if root is not None:  # the session no longer has it: the following queries are also below it
            self._root = root
        root = self._root
        own = noted.options.get(OPTION)
        if own is None and root is None:
            return
        own = own if own is not None else f"{str(root).rstrip('/')}/{query}"
        if not (self._begins and empty):
            log.info("query %s: its own checkpointLocation %s is not used", query, own)
            return
        try:
            committed = self._committed(own)
        except (HaError, OSError) as error:
            reason = f"which cannot be read ({error})"
        else:
            if committed < 0:
                log.info("query %s: its own checkpointLocation %s is not used; it holds no batch", query, own)
                return
            reason = f"which holds its batches up to {committed}"
        raise ApplicationRefusedError(
            f"query {query!r} sets checkpointLocation {own!r}, {reason}, and the job has no batch of it: it would "
            "begin from nothing",
            next_step=beside_other_queries(query, own, sink)
            if restored
            else from_own_location(query, own, sink, others=self._beside(own, query, root)),
        )

    def _committed(self, location: str) -> int:
        return progress(self._reach.tree(output_place(location))).committed

    def _beside(self, own: str, query: str, root: str | None) -> dict[str, str]:
        """Return the checkpoints of the other queries below the same root: they have to be adopted together."""
        if root is None or own != f"{root.rstrip('/')}/{query}":
            return {}
        try:
            place = output_place(root)
            tree = self._reach.tree(place)
            found = (name for name in queries(tree) if name != query and progress(tree / name).committed >= 0)
            return {name: f"{place}/{name}" for name in found}
        except (HaError, OSError):
            return {}  # the own location is known, and its adoption reports the missing ones
