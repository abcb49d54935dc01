"""Import of an archive into the job that exported it.

Invariant: the savepoint becomes known by its pointer, like every other, after every byte was read again. Only the job
named in the manifest can import it: the rest of a restore, such as the job graph, belongs to that job.
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
    """Refuse a savepoint that the job cannot adopt; change nothing.

    :raises ConfigurationError: Its id is not a valid name.
    :raises JobStateError: It belongs to another job, or the job already has a savepoint with that id.
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
        f"job {job_id!r} already has a savepoint {savepoint.savepoint_id!r}",
        next_step="Check it with `spark-ha savepoint verify`",
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
    """Unpack an archive and make it a savepoint of the job.

    :param commit: ``leadership.commit`` of the job's leader.
    :param expected: The manifest that ``unpack.described`` returned.
    :param scratch: Directory for temporary files when the job's savepoints are on S3 or HDFS; by default the directory
        of
        the archive.
    :raises CheckpointCorruptError: The archive is refused; no part is kept.
    :raises JobStateError: As :func:`check_adoptable`, or the files of an earlier savepoint with that id are still being
        read.
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
        remove_tree(directory)  # left by a process that died before it wrote the pointer: without one it has no owner
    savepoint = unpack(archive, directory, expected=expected)
    try:
        savepoints.publish(commit, savepoint)
    except CheckpointCorruptError:
        remove_tree(directory)
        raise
    return savepoint
