"""Roots of a cluster: one identity in storage root, work root and ZooKeeper, compared before a write.

Invariants:

- The roots of a cluster are created once, by the first process that writes for it, while ZooKeeper has no record of
  them. A recorded root without a marker is not mounted, and is not created again.
- The markers are written first and ZooKeeper's copy second, so an empty ZooKeeper adopts the identity of the roots.
- Two connections with different paths may mean the same file system, mounted in two places: the identity decides.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_ha.clock import new_id
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator, SetData
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.errors import (
    ConfigurationError,
    HaError,
    ObjectExistsError,
    StorageUnavailableError,
    VersionConflictError,
)
from airflow_provider_ha.storage.keys import JOBS
from airflow_provider_ha.storage.object_store import ObjectStore
from airflow_provider_ha.storage.open_storage import open_root, storage_uri
from airflow_provider_ha.storage.roots import MARKER, ClusterRoots, read_marker


@dataclass(frozen=True, slots=True)
class RootsOfCluster:
    """The roots of a connection, in the form that a store requires (``storage.roots``). Owns nothing."""

    config: HaConfig
    coordinator: Coordinator

    def settle(self) -> None:
        """Ensure that the roots belong to the cluster, or create the cluster's roots.

        :raises ConfigurationError: The cluster has other roots; the message has both.
        :raises StorageUnavailableError: A root has no marker, so it is not mounted here. Raised before any write.
        """
        paths = ClusterPaths(self.config.root, self.config.cluster_id)
        while not self.known():
            record = _marked(self.config)  # first, so that an unwritable root leaves no node
            self.coordinator.ensure(paths.base)
            node = self.coordinator.get(paths.base)
            if node.data:
                continue  # another process was faster
            try:
                self.coordinator.commit(SetData(paths.base, record.to_bytes(), node.version))
            except VersionConflictError:
                continue  # as above: the next turn compares the markers

    def require(self) -> None:
        """Check that the roots of the cluster, if any, are mounted; raises as :meth:`settle`. Changes nothing."""
        self.known()

    def marked(self) -> bool:
        """Return whether the storage root has a marker, of this or another cluster."""
        return read_marker(open_root(self.config, storage_uri(self.config))) is not None

    def known(self) -> bool:
        """Return whether the cluster has roots, after checking that they are these; raises as :meth:`settle`."""
        known = read_roots(self.coordinator, ClusterPaths(self.config.root, self.config.cluster_id))
        if known is None:
            return False
        for what, uri in _roots(self.config).items():
            recorded = known.storage if what == "storage root" else known.work
            found = read_marker(open_root(self.config, uri))
            if found is not None and found.uuid == known.uuid:
                continue
            if found is None and uri == recorded:
                raise _not_mounted(f"{what} {uri} of cluster {self.config.cluster_id!r}, which ZooKeeper knows,")
            raise _two_roots(self.config, what, uri, recorded)
        return True


def read_roots(coordinator: Coordinator, paths: ClusterPaths) -> ClusterRoots | None:
    """Return the roots recorded in ZooKeeper; ``None`` for a cluster without any write.

    :raises RecordCorruptError: The record cannot be read.
    """
    node = coordinator.find(paths.base)
    return ClusterRoots.from_bytes(node.data, source=f"znode {paths.base}") if node is not None and node.data else None


def _roots(config: HaConfig) -> dict[str, str]:
    storage, work = storage_uri(config), config.work_uri
    return {"storage root": storage} if storage == work else {"storage root": storage, "work root": work}


def _marked(config: HaConfig) -> ClusterRoots:
    """Return the markers' record, or create markers if there are none.

    :raises ConfigurationError: The markers belong to two clusters.
    :raises StorageUnavailableError: A root belongs to a cluster that has worked, and the other root has no marker.
    """
    roots = {what: open_root(config, uri) for what, uri in _roots(config).items()}
    found = {what: read_marker(root) for what, root in roots.items()}
    known = {what: marker for what, marker in found.items() if marker is not None}
    if len({marker.uuid for marker in known.values()}) > 1:
        places = " and ".join(f"the {what} {root.uri}" for what, root in roots.items())
        raise ConfigurationError(
            f"{places} are of different clusters: their {MARKER} differ",
            next_step="Correct storage_root or work_root of the connection",
        )
    missing = [what for what in roots if what not in known]
    # The storage root is marked first. So a marker there alone may come from a process that died here, unlike a marker
    # in the work root alone.
    if missing and known and ("work root" in known or _has_worked(roots["storage root"])):
        raise _not_mounted(f"{missing[0]} {roots[missing[0]].uri}, whose cluster has worked,")
    new = ClusterRoots(uuid=new_id(), storage=storage_uri(config), work=config.work_uri)
    marker = next(iter(known.values()), new)
    for what in missing:
        marker = _mark(roots[what], marker)
    return marker


def _has_worked(storage: ObjectStore) -> bool:
    return next(iter(storage.list(JOBS)), None) is not None


def _mark(root: ObjectStore, marker: ClusterRoots) -> ClusterRoots:
    """Write a marker unless one exists; return the root's marker."""
    try:
        root.create(MARKER, marker.to_bytes())
    except ObjectExistsError:
        there = read_marker(root)
        if there is None:
            raise
        return there
    return marker


def _not_mounted(root: str) -> HaError:
    return StorageUnavailableError(
        f"{root} has no {MARKER}: it is not mounted on this host, or was removed, so it remains unchanged",
        next_step="Mount its file system, then try again",
    )


def _two_roots(config: HaConfig, what: str, uri: str, recorded: str) -> HaError:
    place = f"the {what} {recorded}" if uri != recorded else f"another {what}, which was mounted at {recorded}"
    return ConfigurationError(
        f"cluster {config.cluster_id!r} has {place}, and this connection names {uri}, which is not the same storage",
        next_step="Name or mount that root on this host, or use another cluster_id",
    )
