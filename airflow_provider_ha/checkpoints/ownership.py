"""Ownership of the restore source: the owner removes it (design, section 1).

In either mode a checkpoint belongs to the job: it is subsumed like every other, also after a restore from it.
"""

from __future__ import annotations

from enum import Enum

from airflow_provider_ha.records import Model


class ClaimMode(str, Enum):
    """Claim mode of a restore, in Flink's terms.

    ``NO_CLAIM``: the restore source stays its owner's and is never changed, and the run does not depend on its files.
    ``CLAIM``: the job becomes its owner and removes it once newer checkpoints have subsumed it.
    """

    NO_CLAIM = "NO_CLAIM"
    CLAIM = "CLAIM"


class Owner(str, Enum):
    """Owner of the source of a restore, once the restore is done."""

    USER = "user"
    JOB = "job"


class AdoptedCheckpoint(Model):
    """Checkpoint directory of a query, written by Spark outside of this package's storage.

    :param path: Absolute path of this directory; a URI on S3 and HDFS.
    :param query_id: Spark's id of the query, from its ``metadata``.
    :param planned: Last planned batch (L) when it was read.
    :param committed: Last committed batch (C) when it was read; the cut.
    """

    path: str
    query_id: str
    planned: int
    committed: int
