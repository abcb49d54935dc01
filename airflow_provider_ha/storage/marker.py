"""The marker of a cluster in its storage root and its work root: what tells a root from an empty mount point.

Written once, by an exclusive creation, before anything else (``jobs.cluster_roots``). While it is missing, that another
file is missing says nothing: the file system may not be mounted here.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Protocol

from airflow_provider_ha.errors import ObjectMissingError
from airflow_provider_ha.records import Record
from airflow_provider_ha.storage.file_store import FileStore
from airflow_provider_ha.storage.outage import outages


MARKER = "cluster.json"
"""Key of the marker, in both roots."""


class ClusterRoots(Record):
    """The marker, and the data of the cluster's own node: where its roots are, as the process that made them saw them.

    :param uuid: Identity of the cluster: another one of its name has another one.
    :param storage: URI of the storage root, with the cluster's id.
    :param work: URI of the work root, with the cluster's id.
    """

    kind: ClassVar[str] = "cluster-roots"

    uuid: str
    storage: str
    work: str


def read_marker(root: FileStore) -> ClusterRoots | None:
    """Return the marker of a root; ``None`` when it has none.

    :raises RecordCorruptError: It is not what was written.
    :raises StorageUnavailableError: It could not be read.
    """
    try:
        return ClusterRoots.from_bytes(root.read(MARKER), source=f"{root.uri}/{MARKER}")
    except ObjectMissingError:
        return None


class Roots(Protocol):
    """The roots of one cluster, for a store that lies in one of them (``jobs.cluster_roots``)."""

    def settle(self) -> None:
        """Ensure that they are those of the cluster; make them when it has none.

        :raises ConfigurationError: The cluster has others.
        :raises StorageUnavailableError: One has no marker: it is not mounted here.
        """

    def require(self) -> None:
        """Assert that they are there, when the cluster has any; raises as :meth:`settle`. Changes nothing."""


def is_marked(root: Path) -> bool:
    """Whether a directory of this host is the root of a cluster.

    :raises StorageUnavailableError: It could not be found out.
    """
    with outages("looked up", root):
        try:
            (root / MARKER).stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
    return True
