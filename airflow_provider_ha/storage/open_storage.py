"""Factory of stores: the only place that maps a URI scheme to a class.

Only the class that a root needs is loaded: a driver opens its store while the job is down.
"""

from __future__ import annotations

from pathlib import Path

from airflow_provider_ha.config import HaConfig, HdfsOptions, S3Options
from airflow_provider_ha.storage.local_store import LocalStore
from airflow_provider_ha.storage.object_store import ObjectStore
from airflow_provider_ha.storage.roots import Roots
from airflow_provider_ha.uris import split


def open_store(config: HaConfig, roots: Roots | None = None) -> ObjectStore:
    """Return the store of the cluster, rooted at ``<storage_root>/<cluster_id>``. Writes nothing.

    The configuration has already checked the scheme.

    :param roots: Roots of the cluster, required from writers. Without them only reads are safe, because a write would
        create a missing root.
    """
    uri = storage_uri(config)
    if split(uri).scheme == "s3":
        return _s3_store(config, uri, roots)
    return LocalStore(_path(uri), roots=roots)


def open_root(config: HaConfig, uri: str) -> ObjectStore:
    """Return the files below a root of the cluster, for its marker.

    :param uri: :func:`storage_uri`, or ``config.work_uri``.
    """
    return layered_files(config, uri) or LocalStore(_path(uri), new=True)


def layered_files(config: HaConfig, uri: str) -> ObjectStore | None:
    """Return the files below a root on S3 or HDFS; ``None`` for a root on a mounted file system."""
    if uri.startswith("s3:"):
        return _s3_store(config, uri)
    if uri.startswith("hdfs:"):
        from airflow_provider_ha.storage.hdfs_store import HdfsStore  # noqa: PLC0415  # only where a root is there

        return HdfsStore(uri, config.hdfs or HdfsOptions())
    return None


def storage_uri(config: HaConfig) -> str:
    """Return the root of the cluster's store."""
    return f"{config.storage_root}/{config.cluster_id}"


def _s3_store(config: HaConfig, uri: str, roots: Roots | None = None) -> ObjectStore:
    from airflow_provider_ha.storage.s3_store import S3Store  # noqa: PLC0415  # only where a root is there

    return S3Store(uri, config.s3 or S3Options(), roots=roots)


def _path(uri: str) -> Path:
    return Path(split(uri).path)
