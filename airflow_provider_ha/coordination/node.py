"""One node of ZooKeeper as it was read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Node:
    """A znode as it was read.

    :param path: Its path.
    :param data: Its bytes.
    :param version: How often its data was set since it was created.
    :param modified_zxid: Transaction that last changed it: grows over the whole ensemble.
    :param ephemeral_owner: Session that owns it; 0 for a persistent node.
    """

    path: str
    data: bytes
    version: int
    modified_zxid: int
    ephemeral_owner: int
