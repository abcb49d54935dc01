"""From a configuration to its store: the one place that knows which URI scheme is which class."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from airflow_provider_ha.config import HaConfig, S3Options
from airflow_provider_ha.storage.local import LocalStore
from airflow_provider_ha.storage.s3 import S3Store
from airflow_provider_ha.storage.store import ObjectStore


def open_store(config: HaConfig) -> ObjectStore:
    """Return the store of the cluster, rooted at ``<storage_root>/<cluster_id>``. Nothing is written.

    The scheme was checked when the configuration was made.
    """
    parts = urlsplit(config.storage_root)
    if parts.scheme == "s3":
        return S3Store(f"{config.storage_root}/{config.cluster_id}", config.s3 or S3Options())
    return LocalStore(Path(unquote(parts.path)) / config.cluster_id)
