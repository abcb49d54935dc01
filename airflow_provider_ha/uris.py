"""Names of places: a path of this host, or ``file:``, ``s3:`` and ``hdfs:`` URIs. One rule, which is Hadoop's.

The text after scheme and authority is the literal path: it has no escapes, no query and no fragment. The directory
``file:///data/a%20b`` has a percent sign in its name, for Spark and for this package. Spark's logs differ: their names
are encoded (:func:`of_log`), as are the names in spark-submit's lists (:func:`list_item`).
"""

from __future__ import annotations

import re
from glob import escape, glob
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from airflow_provider_ha.errors import ConfigurationError


# Scheme of this package -> scheme of Hadoop.
_SCHEMES = {"s3": "s3a", "hdfs": "hdfs", "file": "file"}
PREFIX = "ha"
"""Prefix of a Hadoop scheme for the component's file system, which reads through bases."""
_SPLIT = re.compile(r"(?:([A-Za-z][A-Za-z0-9+.-]*):)?(?://([^/]*))?(.*)", re.DOTALL)
_ESCAPED = re.compile(r"([\\*{}^])")
_UNSAID = re.compile(r"[?\[\]]")  # spark-submit reads them as parts of a URI, also when they are encoded


class Place(NamedTuple):
    """Parts of a name. Without a scheme it is a path of this host.

    :param path: Path with its first slash.
    """

    scheme: str
    authority: str
    path: str


def split(named: str) -> Place:
    """Return the parts of a path or a URI, as Hadoop's ``Path`` reads them."""
    if named.startswith("/"):
        return Place("", "", named)
    scheme, authority, path = _SPLIT.fullmatch(named).groups("")  # type: ignore[union-attr]  # it matches every text
    return Place(scheme.lower(), authority, path)


def refusal_of(root: Place) -> str | None:
    """Return why a root is not one place for Python, Spark and spark-submit; ``None`` when it is."""
    if not root.path.isprintable() or root.path != root.path.strip():
        return "ends with a space, or has a control character; give the directory another name"
    names = root.path.strip("/").split("/")
    if {".", ".."} & set(names) or (root.scheme != "file" and "" in names[1:]):
        return "has a part '.' or '..', or an empty one; write the path without it"
    separators = {"file": ":,", "hdfs": ":"}.get(root.scheme, "")
    if any(sign in root.path for sign in separators):
        return f"has a character of '{separators}' in its path, where Spark ends a name; rename the directory"
    return None


def file_uri(path: Path) -> str:
    """Return the ``file:`` URI of an absolute path."""
    return f"file://{path}"


def of_log(recorded: str) -> str:
    """Return the name of a file in a log of Spark's file source or file sink, which Spark encodes as Java does."""
    place = split(recorded)
    return f"{recorded.removesuffix(place.path)}{unquote(place.path)}"


def list_item(path: Path) -> str:
    """Return a local file as an item of ``spark.files`` and similar lists: a URI with escapes, whose path is a pattern.

    :raises ConfigurationError: Its name has a character that cannot be expressed there, and another file matches it.
    """
    if _UNSAID.search(str(path)):
        pattern = "*".join(map(escape, _UNSAID.split(str(path))))
        found = sorted(glob(pattern))  # noqa: PTH207  # of an absolute path
        if len(found) > 1:
            raise ConfigurationError(
                f"spark-submit confuses {found[0]!r} with {found[1]!r}",
                next_step="Rename the first or the second directory: '?', '[' and ']' are wildcards there",
            )
    return Path(_UNSAID.sub("*", _ESCAPED.sub(r"\\\1", str(path)))).as_uri()


def hadoop_uri(root: str) -> str:
    """Return the URI by which Hadoop knows a storage root: the value of ``fs.ha.root``.

    :raises ConfigurationError: Hadoop has no file system for it that the component wraps.
    """
    scheme, colon, rest = root.partition(":")
    if scheme not in _SCHEMES or not colon:
        raise ConfigurationError(
            f"working directories cannot be on {root!r}", next_step=f"Choose a URI with {', '.join(_SCHEMES)}"
        )
    return f"{_SCHEMES[scheme]}:{rest}"


def spark_uri(root: str) -> str:
    """Return the URI by which Spark sees a storage root; raises as :func:`hadoop_uri` does."""
    return f"{PREFIX}{hadoop_uri(root)}"
