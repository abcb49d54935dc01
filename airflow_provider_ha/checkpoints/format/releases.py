"""Differences between Spark releases for damaged checkpoints (spark-facts section 7).

Invariant: each difference was observed by starting that release on a damaged copy. An untested release is judged as
the nearest older tested one.
"""

from __future__ import annotations

import importlib.metadata
import re
from dataclasses import dataclass

from airflow_provider_ha.errors import ConfigurationError


_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.\d+)?\S*")
# Judged when no Spark is installed and none was named.
_DEFAULT = "4.2.0"


@dataclass(frozen=True, slots=True)
class Release:
    """A Spark release's treatment of damage.

    :param version: ``(major, minor)``.
    """

    version: tuple[int, int]

    @property
    def needs_query_id(self) -> bool:
        """Return whether a missing ``metadata`` is refused (SPARK-55058); older releases make a new query id."""
        return self.version >= (4, 2)

    def inner_version(self, *, by_id: bool) -> str:
        """Return the version of the metadata in a zip that is read; any other one is refused.

        ``RocksDBCheckpointMetadata.VERSION`` is 1, but in 4.0 it is the checkpoint format of the first query of a JVM
        that uses RocksDB. A zip of version 1 in format 2 is of a JVM that began with a query of format 1; only such a
        JVM reads it, and only another one reads version 2.
        """
        return "v2" if by_id and self.version == (4, 0) else "v1"

    @property
    def knows_changelogs(self) -> bool:
        """Return whether a RocksDB store is loaded from an older zip and the changelogs since; 3.4 knows only zips."""
        return self.version >= (3, 5)

    @property
    def reads_version_of_changelogs(self) -> bool:
        """Return whether a changelog is assumed to begin with its version, as a text with its length first."""
        return self.version >= (4, 0)

    @property
    def newest_join_format(self) -> int:
        """The newest format of a join's state: 3 since 4.1, 4 since 4.2 (``SQLConf``)."""
        return 4 if self.version >= (4, 2) else 3 if self.version >= (4, 1) else 2

    @property
    def falls_back(self) -> bool:
        """Return whether a store whose newest snapshot is bad is loaded from an older one and the changes since."""
        return self.version >= (4, 2)

    @property
    def skips_directories(self) -> bool:
        """Return whether a directory as a snapshot is ignored: 3.3, 3.5 and 4.1 continue, 4.2 and 4.3 fail."""
        return self.version < (4, 2)

    @property
    def refuses_unfinished_repartition(self) -> bool:
        """Return whether a repartition that was begun and not committed is refused."""
        return self.version >= (4, 2)

    @property
    def accepts_empty_spark_crc(self) -> bool:
        """Return whether an empty checksum file counts as none."""
        return self.version == (4, 1)

    def checks_hadoop_crc_of_zip(self, *, by_id: bool) -> bool:
        """Return whether a RocksDB zip is compared with its hidden checksum: 4.1 in both formats, 4.2 only in format 1.

        :param by_id: Whether the zip belongs to checkpoint format 2.
        """
        return not by_id or self.version < (4, 2)

    def checks_spark_crc(self, *, by_id: bool, of_zip: bool) -> bool:
        """Return whether Spark's visible checksum files are enforced.

        :param by_id: Whether the file belongs to checkpoint format 2: since 4.2 other files are not checked.
        :param of_zip: Whether it is a RocksDB zip: 4.1 stops reading before its end, and does not compare.
        """
        return (self.version == (4, 1) and not of_zip) or (by_id and self.version >= (4, 2))


def release(version: str | None) -> Release:
    """Return the release of *version*.

    :param version: As ``4.2.0``; ``None`` for the installed pyspark.
    :raises ConfigurationError: It is not a version of Spark.
    """
    match = _VERSION.fullmatch(version or installed_version())
    if not match:
        raise ConfigurationError(f"{version!r} is not a version of Spark", next_step="Write it as 4.2.0")
    return Release((int(match[1]), int(match[2])))


def installed_version() -> str:
    """Return the version of the installed pyspark, read without importing it; the default without pyspark."""
    try:
        return importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:
        return _DEFAULT
