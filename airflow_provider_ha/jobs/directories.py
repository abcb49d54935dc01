"""Where the current working directory of a job lies, by what its generation says."""

from __future__ import annotations

from pathlib import Path

from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.jobs.model import Generation
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.resolve import resolve_key


def working_directory(work_path: Path, paths: JobPaths, generation: Generation) -> Path:
    """Return the working directory that *generation* names.

    :param work_path: Root of all keys of directories.
    :raises RecordCorruptError: It names anything but a working directory of this job.
    :raises StorageUnavailableError: The way to it could not be looked at.
    """
    inside = (JobKeys(paths.job_id).live,)
    return resolve_key(work_path, generation.directory, inside=inside, source=f"znode {paths.generation}")
