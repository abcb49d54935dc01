"""URIs of a storage root: ours, Hadoop's plain one, and the one through which Spark sees its working directories."""

from __future__ import annotations

from airflow_provider_ha.errors import ConfigurationError


# Of this package -> of Hadoop.
_SCHEMES = {"s3": "s3a", "hdfs": "hdfs", "file": "file"}
PREFIX = "ha"
"""Before a scheme of Hadoop: the component's file system, which reads through bases."""


def hadoop_uri(root: str) -> str:
    """Return the URI by which Hadoop knows a storage root: the value of ``fs.ha.root``.

    :raises ConfigurationError: Hadoop has no file system for it that the component wraps.
    """
    scheme, colon, rest = root.partition(":")
    if scheme not in _SCHEMES or not colon:
        raise ConfigurationError(
            f"working directories cannot be on {root!r}", next_step=f"Use one of {', '.join(_SCHEMES)}"
        )
    return f"{_SCHEMES[scheme]}:{rest}"


def spark_uri(root: str) -> str:
    """Return the URI by which Spark sees a storage root; raises as :func:`hadoop_uri` does."""
    return f"{PREFIX}{hadoop_uri(root)}"
