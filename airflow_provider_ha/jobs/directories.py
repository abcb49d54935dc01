"""The current working directory of a job, by what its generation says."""

from __future__ import annotations

from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.jobs.model import Generation
from airflow_provider_ha.storage.directories import Directories
from airflow_provider_ha.storage.keys import JobKeys


def working_directory(directories: Directories, paths: JobPaths, generation: Generation) -> str:
    """Return the key of the working directory that *generation* names.

    :param directories: Those of the cluster.
    :raises RecordCorruptError: It names anything but a working directory of this job.
    :raises StorageUnavailableError: The way to it could not be looked at.
    """
    inside = (JobKeys(paths.job_id).live,)
    return directories.admit(generation.directory, inside=inside, source=f"znode {paths.generation}")
