"""Places of checkpoints and outputs, as users and Spark name them: a path, or a ``file:``, ``s3:`` or ``hdfs:`` URI."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.spark.object_tree import SCHEMES, ObjectTree
from airflow_provider_ha.checkpoints.spark.tree import Tree
from airflow_provider_ha.config import HaConfig, HdfsOptions, S3Options
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.storage.hdfs_store import HdfsStore
from airflow_provider_ha.storage.object_store import ObjectStore
from airflow_provider_ha.storage.s3_store import S3Store
from airflow_provider_ha.uris import split


HDFS = "hdfs"
LOCAL = frozenset({"", "file"})
"""Schemes of local file systems."""


@dataclass(frozen=True, slots=True)
class StorageAccess:
    """Access of this process to the file systems of outputs.

    :param s3: Endpoint and credentials of S3; by default from the environment.
    :param hdfs: Web servers of name nodes, and the user of the requests; by default from the environment.
    """

    s3: S3Options | None = None
    hdfs: HdfsOptions | None = None

    @classmethod
    def of(cls, config: HaConfig) -> StorageAccess:
        """Return the access of a connection."""
        return cls(config.s3, config.hdfs)

    def files(self, output: str) -> ObjectStore:
        """Return the files of an output on remote storage. Lazy: reads nothing yet.

        :raises ConfigurationError: The options cannot be used.
        """
        if is_hdfs(output):
            return HdfsStore(output, self.hdfs or HdfsOptions.from_env())
        return S3Store(output, self.s3 or S3Options.from_env())

    def tree(self, place: str) -> Tree:
        """Return a directory for reads. Lazy: reads nothing yet.

        :raises ConfigurationError: The options cannot be used.
        """
        return LocalTree(Path(place)) if is_local(place) else ObjectTree(self.files(place))


def local_path(path: str) -> Path:
    """Return a place as a path of this host.

    :param path: As the script named it: a path or a ``file:`` URI.
    :raises ConfigurationError: It is not on a file system of this host.
    """
    place = split(path)
    if place.scheme not in LOCAL:
        raise ConfigurationError(
            f"{path!r} is not on a file system of this host, so it cannot be read as one",
            next_step="Write to a mounted directory, or through foreachBatch",
        )
    return Path(place.path)


def is_local(place: str) -> bool:
    """Return whether *place* is a path or a ``file:`` URI."""
    return split(place).scheme in LOCAL


def output_place(said: str) -> str:
    """Return an output in its normal form, which is the same for all spellings of a directory.

    Different names of an HDFS (of a name node or its nameservice, with and without the port) stay different.

    :param said: As named by a script or a user: a path, ``file:/path``, ``s3a://bucket/key`` (or ``s3``, ``s3n``),
        ``hdfs://namenode:8020/path``.
    :returns: An absolute path, ``s3://bucket/key`` or ``hdfs://namenode:8020/path``.
    :raises ConfigurationError: The logs of its file system cannot be read here, or it is not a location.
    """
    if is_local(said):
        return os.path.abspath(local_path(said))  # noqa: PTH100  # keeps links, as Spark does
    parts = split(said)
    if parts.scheme not in SCHEMES | {HDFS}:
        raise ConfigurationError(
            f"the output {said!r} is on a file system ({parts.scheme}:) whose sink log cannot be read from here",
            next_step="Write to a mounted directory, to s3a://bucket/prefix or hdfs://namenode:8020/path, or through "
            "foreachBatch",
        )
    if not parts.authority or "@" in parts.authority:
        shown = f"{parts.scheme}://...@{parts.authority.rpartition('@')[2]}" if "@" in parts.authority else said
        raise ConfigurationError(
            f"the output {shown!r} is not a bucket or name node with a path, in a form that this package and "
            "Spark read alike",
            next_step="Write s3a://bucket/prefix or hdfs://namenode:8020/path; credentials belong into the connection "
            "and Spark's conf",
        )
    path = posixpath.normpath(f"/{parts.path.strip('/')}")
    authority = parts.authority.lower() if parts.scheme == HDFS else parts.authority
    return f"{HDFS if parts.scheme == HDFS else 's3'}://{authority}{path}".rstrip("/")


def place_of(options: Mapping[str, str]) -> str | None:
    """Return the option ``path`` of a writer in its normal form, or unchanged if it has no normal form."""
    path = options.get("path")
    if path is None:
        return None
    try:
        return output_place(path)
    except ConfigurationError:
        return path


def is_s3(place: str) -> bool:
    """Return whether *place* is a URI of S3, with the common scheme (``s3``) or Hadoop's (``s3a``, ``s3n``)."""
    return split(place).scheme in SCHEMES


def is_hdfs(place: str) -> bool:
    """Return whether *place* is a URI of HDFS."""
    return split(place).scheme == HDFS


def s3_uri(place: str) -> str:
    """Return a URI of S3 with our scheme.

    :raises ConfigurationError: It names no bucket.
    """
    parts = split(place)
    if not parts.authority:
        raise ConfigurationError(f"{place!r} names no bucket", next_step="Write s3://bucket/prefix")
    return f"s3://{parts.authority}{parts.path.rstrip('/')}"


def directory_at(place: str, options: S3Options | None = None) -> Tree:
    """Return the directory at *place* for reads. Lazy: reads nothing yet.

    :param place: A path, ``file:///path``, ``s3://bucket/prefix`` or ``hdfs://namenode:8020/path``.
    :param options: Access to S3; by default from the environment.
    :raises ConfigurationError: The location has another form, or the options cannot be used.
    """
    if is_s3(place):
        return ObjectTree(S3Store(s3_uri(place), options or S3Options.from_env()))
    if is_hdfs(place):
        return StorageAccess().tree(output_place(place))
    if not is_local(place):
        raise ConfigurationError(
            f"{place!r} is on a file system ({split(place).scheme}:) that cannot be read from here",
            next_step="Name a mounted path, s3://bucket/prefix or hdfs://namenode:8020/path",
        )
    return LocalTree(local_path(place))
