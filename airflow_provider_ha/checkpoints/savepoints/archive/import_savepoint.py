"""The import of a savepoint from an archive into the job that it was exported from.

Invariant: it becomes known as every savepoint does, by its pointer, after every byte was read again; and only to the
job that its manifest names, for the rest of what a restore needs (the job graph) is that job's.
"""

from __future__ import annotations

from pathlib import Path

from airflow_provider_ha.checkpoints.model import Savepoint
from airflow_provider_ha.checkpoints.savepoints.archive.unpack import unpack
from airflow_provider_ha.checkpoints.savepoints.directory import SavepointDirectory
from airflow_provider_ha.checkpoints.savepoints.store import SavepointStore
from airflow_provider_ha.checkpoints.trees.attempts import scratch_directory
from airflow_provider_ha.errors import CheckpointCorruptError, CheckpointMissingError, JobStateError
from airflow_provider_ha.names import check_savepoint_id
from airflow_provider_ha.pointers.outcome import Commit
from airflow_provider_ha.storage.durable import make_directories, remove_tree


def check_adoptable(savepoints: SavepointStore, job_id: str, savepoint: Savepoint) -> None:
    """Refuse what cannot become a savepoint of a job; changes nothing.

    :raises ConfigurationError: Its id is no name.
    :raises JobStateError: It is another job's, or the job has a savepoint of that id.
    """
    check_savepoint_id(savepoint.savepoint_id)
    if savepoint.job_id != job_id:
        raise JobStateError(
            f"the archive holds a savepoint of job {savepoint.job_id!r}, not of {job_id!r}",
            next_step="Import it with --to, and restore it from there",
        )
    try:
        savepoints.pointer(savepoint.savepoint_id)
    except CheckpointMissingError:
        return
    raise JobStateError(
        f"job {job_id!r} has a savepoint {savepoint.savepoint_id!r} already",
        next_step="Look whether it is whole with `spark-ha savepoint verify`",
    )


def adopt(
    savepoints: SavepointStore,
    job_id: str,
    commit: Commit,
    archive: Path,
    expected: Savepoint,
    *,
    scratch: Path | None = None,
) -> Savepoint:
    """Unpack an archive, and make it a savepoint of the job.

    :param commit: ``leadership.commit`` of the job's leader.
    :param expected: What ``unpack.described`` said of the archive.
    :param scratch: Where it is unpacked and removed when the job's savepoints lie on S3 or HDFS; beside the archive by
        default.
    :raises CheckpointCorruptError: The archive is refused; nothing of it is kept.
    :raises JobStateError: As :func:`check_adoptable`, or the files of an earlier one of that id are still being read.
    """
    check_adoptable(savepoints, job_id, expected)
    directory = savepoints.tree(expected.savepoint_id).local_path
    if directory is None:
        with scratch_directory((scratch or archive.parent) / archive.name) as beside:
            unpacked = beside / "savepoint"
            return savepoints.receive(
                commit, SavepointDirectory(unpacked, unpack(archive, unpacked, expected=expected))
            )
    savepoints.finish_removal(commit, expected.savepoint_id)
    make_directories(directory.parent)
    if directory.exists():
        remove_tree(directory)  # of an attempt whose process died before the pointer: without one it has no owner
    savepoint = unpack(archive, directory, expected=expected)
    try:
        savepoints.publish(commit, savepoint)
    except CheckpointCorruptError:
        remove_tree(directory)
        raise
    return savepoint
