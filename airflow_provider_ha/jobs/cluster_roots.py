"""Roots of a cluster: one identity in storage root, work root and ZooKeeper, compared before a write.

Invariants:

- The roots of a cluster are made once, by the first process that writes for it, while ZooKeeper knows no roots of it.
  A root that ZooKeeper knows and that has no marker is not mounted, and is not made again.
- The markers come first and ZooKeeper's copy of them second: an empty ZooKeeper takes up the identity of the roots.
- Two connections that name different places may mean one file system, mounted in two places: the identity decides.
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
from airflow_provider_ha.storage.file_store import FileStore
from airflow_provider_ha.storage.keys import JOBS
from airflow_provider_ha.storage.open_storage import open_root, storage_uri
from airflow_provider_ha.storage.roots import MARKER, ClusterRoots, read_marker


@dataclass(frozen=True, slots=True)
class RootsOfCluster:
    """The roots of a connection, as a store asks for them (``storage.marker.Roots``). Owns nothing."""

    config: HaConfig
    coordinator: Coordinator

    def settle(self) -> None:
        """Ensure that they are those of the cluster; make them when it has none.

        :raises ConfigurationError: The cluster has other roots; names both.
        :raises StorageUnavailableError: A root has no marker: it is not mounted here. Nothing was made.
        """
        paths = ClusterPaths(self.config.root, self.config.cluster_id)
        while not self.known():
            record = _marked(self.config)  # first: a root that cannot be written leaves no node
            self.coordinator.ensure(paths.base)
            node = self.coordinator.get(paths.base)
            if node.data:
                continue  # another process has settled them since
            try:
                self.coordinator.commit(SetData(paths.base, record.to_bytes(), node.version))
            except VersionConflictError:
                continue  # as above: its markers are ours, or the next look names both

    def require(self) -> None:
        """Assert that they are there, when the cluster has any; raises as :meth:`settle`. Changes nothing."""
        self.known()

    def marked(self) -> bool:
        """Return whether the storage root has a marker, of this cluster or of another."""
        return read_marker(open_root(self.config, storage_uri(self.config))) is not None

    def known(self) -> bool:
        """Return whether the cluster has roots, after a look that these are them; raises as :meth:`settle`."""
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
    """Return the roots that ZooKeeper knows; ``None`` for a cluster that no process has written for.

    :raises RecordCorruptError: They cannot be read.
    """
    node = coordinator.find(paths.base)
    return ClusterRoots.from_bytes(node.data, source=f"znode {paths.base}") if node is not None and node.data else None


def _roots(config: HaConfig) -> dict[str, str]:
    storage, work = storage_uri(config), config.work_uri
    return {"storage root": storage} if storage == work else {"storage root": storage, "work root": work}


def _marked(config: HaConfig) -> ClusterRoots:
    """Return what the markers of the roots say; make these where no root has one.

    :raises ConfigurationError: They are of two clusters.
    :raises StorageUnavailableError: One root is of a cluster that has worked, and the other one has no marker.
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
    # The storage root is marked first: alone it may be what a process has left that died here, alone the work root not.
    if missing and known and ("work root" in known or _has_worked(roots["storage root"])):
        raise _not_mounted(f"{missing[0]} {roots[missing[0]].uri}, whose cluster has worked,")
    new = ClusterRoots(uuid=new_id(), storage=storage_uri(config), work=config.work_uri)
    marker = next(iter(known.values()), new)
    for what in missing:
        marker = _mark(roots[what], marker)
    return marker


def _has_worked(storage: FileStore) -> bool:
    return next(iter(storage.list(JOBS)), None) is not None


def _mark(root: FileStore, marker: ClusterRoots) -> ClusterRoots:
    """Write a marker once; return the one that the root has from then on."""
    try:
        root.create(MARKER, marker.to_bytes(), writer=new_id())
    except ObjectExistsError:
        there = read_marker(root)
        if there is None:
            raise
        return there
    return marker


def _not_mounted(root: str) -> HaError:
    return StorageUnavailableError(
        f"{root} has no {MARKER}: it is not mounted on this host, or was removed; nothing was written",
        next_step="Mount its file system, then try again",
    )


def _two_roots(config: HaConfig, what: str, uri: str, recorded: str) -> HaError:
    place = f"the {what} {recorded}" if uri != recorded else f"another {what}, which was mounted at {recorded}"
    return ConfigurationError(
        f"cluster {config.cluster_id!r} has {place}, and this connection names {uri}, which is not the same storage",
        next_step="Name or mount that root on this host, or use another cluster_id",
    )
