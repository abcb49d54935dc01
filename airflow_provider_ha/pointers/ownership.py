"""Ownership of what a run was restored from: the owner removes it (design, section 1).

In either mode a checkpoint belongs to the job: it is subsumed like every other, also after a restore from it.
"""

from __future__ import annotations

from enum import Enum

from airflow_provider_ha.records import Model


class ClaimMode(str, Enum):
    """The claim mode of a restore, in Flink's words.

    ``NO_CLAIM``: what was restored from stays its owner's, is never changed, and nothing of the run depends on its
    files. ``CLAIM``: it becomes the job's, which removes it once newer checkpoints have subsumed it.
    """

    NO_CLAIM = "NO_CLAIM"
    CLAIM = "CLAIM"


class Owner(str, Enum):
    """Owner of the source of a restore, once the restore is done."""

    USER = "user"
    JOB = "job"


class AdoptedCheckpoint(Model):
    """The checkpoint directory of one query that Spark wrote elsewhere.

    :param path: Absolute path of this directory; a URI on S3 and HDFS.
    :param query_id: Spark's own id of the query, from its ``metadata``.
    :param planned: L when it was looked at.
    :param committed: C when it was looked at; the cut.
    """

    path: str
    query_id: str
    planned: int
    committed: int
