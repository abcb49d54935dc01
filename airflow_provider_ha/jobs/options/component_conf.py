"""Spark's conf for working directories behind the component: which file system, which manager, who writes.

It is set before the script makes its session: a value of a session would be lost in ``spark.newSession()``, and the
queries of that session would run unfenced.
"""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.errors import ApplicationRefusedError
from airflow_provider_ha.uris import split


PREFIX = "ha"
SCHEMES = frozenset({"hafile", "hahdfs", "has3a"})
FILE_SYSTEM_CLASS = "io.github.sparkha.HaFileSystem"
MANAGER_CLASS = "io.github.sparkha.HaCheckpointFileManager"
MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
ROOT = "spark.hadoop.fs.ha.root"
WRITER = "spark.hadoop.fs.ha.writer"
_OWNED = "spark.hadoop.fs.ha"  # and what follows: the component's keys and the classes of its file systems


def needs_component(config: HaConfig) -> bool:
    """Whether the jobs of a cluster work where only the component can keep two drivers apart."""
    return not config.work_uri.startswith("file:")


def is_layered(location: str) -> bool:
    """Whether a working directory's URI is one of the component's."""
    return split(location).scheme in SCHEMES


def writer_id(epoch: int, submission: str, process: str) -> str:
    """Return the writer id that an object keeps."""
    return f"{epoch}/{submission}/{process}"


def component_conf(root: str, writer: str) -> dict[str, str]:
    """Return the conf that driver and executors need, beside the jar.

    :param root: Storage root with the plain scheme (``s3a://bucket/prefix``): places of a base are relative to it.
    :param writer: See :func:`writer_id`.
    """
    return {
        f"spark.hadoop.fs.{PREFIX}{split(root).scheme}.impl": FILE_SYSTEM_CLASS,
        ROOT: root,
        WRITER: writer,
        MANAGER: MANAGER_CLASS,
    }


def refuse_owned(conf: Mapping[str, str]) -> None:
    """Refuse a user's conf that sets what this package has to set.

    :raises ApplicationRefusedError: It does.
    """
    for key, value in conf.items():
        if key == MANAGER and value != MANAGER_CLASS:
            raise ApplicationRefusedError(
                f"the Spark conf sets {key} to {value}, which does not create entries exclusively",
                next_step=f"Remove it: checkpoints on this storage are written by {MANAGER_CLASS}",
            )
        if key.startswith(_OWNED) and not key.startswith("spark.hadoop.fs.har."):
            raise ApplicationRefusedError(
                f"the Spark conf sets {key}, which belongs to airflow-provider-ha",
                next_step="Remove it: where a job works is said by the connection",
            )
