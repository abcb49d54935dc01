"""The znodes of a cluster or a job, decoded, for display and export.

Invariant: output never includes a secret. Records hold none: applications and their conf are in storage, and ZooKeeper
has only their digests. For data that is not a record of this package, only size and digest are shown.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from airflow_provider_ha.checkpoints import model as checkpoint_records
from airflow_provider_ha.checkpoints import plan_model
from airflow_provider_ha.coordination.coordinator import Coordinator, Node
from airflow_provider_ha.coordination.reader_leases import LeaseRecord
from airflow_provider_ha.errors import RecordCorruptError
from airflow_provider_ha.jobs import job_graph
from airflow_provider_ha.jobs import model as job_records
from airflow_provider_ha.jobs.move import move_records
from airflow_provider_ha.jobs.removal import removal_records
from airflow_provider_ha.jobs.runs import watchers
from airflow_provider_ha.records import Record


_PLAIN = frozenset({"epoch", "heartbeat", "checkpoint_id_counter"})  # a word, a time, a number: stored as text
_LONGEST_TEXT = 64
_DIGEST = 12  # digits of a digest in a one-line summary


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A znode.

    :param version: Number of writes after its creation; for an ``epoch`` node, the epoch.
    :param modified_zxid: ZooKeeper transaction of its last write.
    :param ephemeral_owner: Session that owns it; 0 for a persistent node.
    :param kind: Kind of its record; empty without a record.
    :param record: Fields of its record; ``None`` without a record.
    :param text: Content of a node without a record, such as a number or a time; ``None`` if it is not shown.
    :param undecodable: Reason why it could not be decoded; empty if it could.
    :param size: Size of its data in bytes.
    :param sha256: Digest of its data.
    """

    path: str
    name: str
    version: int
    modified_zxid: int
    ephemeral_owner: int
    size: int
    sha256: str
    kind: str = ""
    record: dict[str, Any] | None = None
    text: str | None = None
    undecodable: str = ""
    children: tuple[TreeNode, ...] = ()

    @property
    def summary(self) -> str:
        """Content of the node in one line."""
        if self.undecodable:
            return f"undecodable: {self.undecodable} ({self.size} bytes, sha256 {self.sha256[:_DIGEST]})"
        if self.record is not None:
            fields = " ".join(f"{name}={_short(value)}" for name, value in self.record.items() if not _empty(value))
            return f"{self.kind}: {fields}"
        return self.text or ""


def read_tree(coordinator: Coordinator, path: str) -> TreeNode | None:
    """Read a node and its descendants; ``None`` if it does not exist.

    A changing tree is read node by node: a node that vanishes is left out.

    :raises NotConnectedError: ZooKeeper could not be read.
    """
    node = coordinator.find(path)
    if node is None:
        return None
    below = (read_tree(coordinator, f"{path}/{name}") for name in coordinator.children(path))
    return _described(node, tuple(child for child in below if child is not None))


def walk(node: TreeNode) -> Iterator[TreeNode]:
    """Yield a node and its descendants, parents first."""
    yield node
    for child in node.children:
        yield from walk(child)


def _described(node: Node, children: tuple[TreeNode, ...]) -> TreeNode:
    name = node.path.rpartition("/")[2]
    content: dict[str, Any] = {}
    if not node.data:
        content = {}
    elif name in _PLAIN and (text := _plain(node.data)) is not None:
        content = {"text": text}
    else:
        content = _decoded(node)
    return TreeNode(
        path=node.path,
        name=name,
        version=node.version,
        modified_zxid=node.modified_zxid,
        ephemeral_owner=node.ephemeral_owner,
        size=len(node.data),
        sha256=hashlib.sha256(node.data).hexdigest(),
        children=children,
        **content,
    )


def _decoded(node: Node) -> dict[str, Any]:
    kind = _kind(node.data)
    known = RECORDS.get(kind)
    if known is None:
        return {"undecodable": f"it holds a record of kind {kind!r}, unknown to this release" if kind else "no record"}
    try:
        record = known.from_bytes(node.data, source="the node")
    except RecordCorruptError as error:
        return {"undecodable": error.message.splitlines()[0]}
    return {"kind": kind, "record": record.model_dump(mode="json")}


def _kind(data: bytes) -> str:
    try:
        kind = json.loads(data)["kind"]
    except (ValueError, KeyError, TypeError):
        return ""
    return kind[:_LONGEST_TEXT] if isinstance(kind, str) else ""


def _plain(data: bytes) -> str | None:
    text = data.decode("ascii", errors="replace")
    return text if text.isprintable() and len(text) <= _LONGEST_TEXT else None


def _short(value: Any) -> str:
    """Return a field's value for a one-line summary, with digests and long texts shortened."""
    if isinstance(value, dict) and set(value) == {"sha256", "size"}:
        return str(value["sha256"])[:_DIGEST]
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
    if len(text) == _LONGEST_TEXT and all(digit in "0123456789abcdef" for digit in text):
        return text[:_DIGEST]  # a sha256
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST_TEXT else f"{text[: _LONGEST_TEXT - 1]}…"


def _empty(value: Any) -> bool:
    return value is None or value in ("", [], {})


def _records_of(*modules: Any) -> dict[str, type[Record]]:
    found: dict[str, type[Record]] = {LeaseRecord.kind: LeaseRecord}
    for value in (value for module in modules for value in vars(module).values()):
        if isinstance(value, type) and issubclass(value, Record) and value is not Record:
            found[value.kind] = value
    return found


RECORDS: dict[str, type[Record]] = _records_of(
    job_graph, job_records, checkpoint_records, plan_model, removal_records, move_records, watchers
)
