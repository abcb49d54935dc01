"""The place of a checkpoint or an output, as users and Spark name it: a path, a ``file:`` or an ``s3:`` URI."""

from __future__ import annotations

from urllib.parse import urlsplit

from airflow_provider_ha.checkpoints.connectors.file_sink_log import LOG, local_path
from airflow_provider_ha.checkpoints.trees.local_tree import LocalTree
from airflow_provider_ha.checkpoints.trees.object_tree import SCHEMES, ObjectTree
from airflow_provider_ha.checkpoints.trees.tree import Tree
from airflow_provider_ha.config import S3Options
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.storage.s3_reader import S3Reader


def is_s3(place: str) -> bool:
    """Whether *place* is a URI of S3, with the common scheme (``s3``) or one of Hadoop's (``s3a``, ``s3n``)."""
    return urlsplit(place).scheme in SCHEMES


def s3_uri(place: str) -> str:
    """Return a URI of S3 with the scheme that is ours.

    :raises ConfigurationError: It names no bucket.
    """
    parts = urlsplit(place)
    if not parts.netloc:
        raise ConfigurationError(f"{place!r} names no bucket", next_step="Write s3://bucket/prefix")
    return f"s3://{parts.netloc}{parts.path.rstrip('/')}"


def directory_at(place: str, options: S3Options | None = None) -> Tree:
    """Return the directory at *place*, to be read. Nothing is read yet.

    :param place: A path, ``file:///path`` or ``s3://bucket/prefix``.
    :param options: How to reach S3; by default what the environment says.
    :raises ConfigurationError: It is neither, or the options cannot be used.
    """
    if is_s3(place):
        return ObjectTree(S3Reader(s3_uri(place), options or S3Options.from_env()))
    return LocalTree(local_path(place))


def sink_log(output: str, options: S3Options | None = None) -> Tree:
    """Return the log of a file sink, by its output directory; of the output itself nothing is listed.

    :raises ConfigurationError: As :func:`directory_at`.
    """
    return directory_at(f"{output.rstrip('/')}/{LOG}", options)
