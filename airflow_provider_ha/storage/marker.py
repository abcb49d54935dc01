"""Marker of a cluster in its storage root and its work root: it distinguishes a root from an empty mount point.

Written once, by an exclusive creation, before anything else (``jobs.cluster_roots``). Without it, a missing file proves
nothing: the file system may not be mounted here.
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
    """Content of the marker and of the cluster's node: locations of the roots, as seen by their creator.

    :param uuid: Identity of the cluster; differs for another cluster with the same name.
    :param storage: URI of the storage root, with the cluster's id.
    :param work: URI of the work root, with the cluster's id.
    """

    kind: ClassVar[str] = "cluster-roots"

    uuid: str
    storage: str
    work: str


def read_marker(root: FileStore) -> ClusterRoots | None:
    """Return the marker of a root; ``None`` without one.

    :raises RecordCorruptError: Its bytes differ from the writer's.
    :raises StorageUnavailableError: It could not be read.
    """
    try:
        return ClusterRoots.from_bytes(root.read(MARKER), source=f"{root.uri}/{MARKER}")
    except ObjectMissingError:
        return None


class Roots(Protocol):
    """Roots of a cluster, for a store in one of these roots (``jobs.cluster_roots``)."""

    def settle(self) -> None:
        """Ensure that these are the cluster's roots; create them if it has none yet.

        :raises ConfigurationError: The cluster has other roots.
        :raises StorageUnavailableError: A root has no marker: it is not mounted here.
        """

    def require(self) -> None:
        """Assert that they are there, when the cluster has any; raises as :meth:`settle`. Changes nothing."""


def is_marked(root: Path) -> bool:
    """Return whether a local directory is the root of a cluster.

    :raises StorageUnavailableError: This could not be determined.
    """
    with outages("looked up", root):
        try:
            (root / MARKER).stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
    return True
