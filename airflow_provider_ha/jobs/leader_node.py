"""What the node of a leader says, for readers that only look."""

from __future__ import annotations

from airflow_provider_ha.coordination.node import Node
from airflow_provider_ha.errors import RecordCorruptError
from airflow_provider_ha.jobs.model import LeaderInfo


def readable_leader(node: Node | None) -> LeaderInfo | None:
    """Return what a leader says of itself; ``None`` when there is no node, or what it holds is no record.

    A node that cannot be read is no error here: its owner leads all the same, and a look at the whole job names it.
    """
    if node is None:
        return None
    try:
        return LeaderInfo.from_bytes(node.data, source=node.path)
    except RecordCorruptError:
        return None
