"""The application of a managed job, brought onto this host for a proof: what wrote the checkpoint starts on it."""

from __future__ import annotations

from pathlib import Path

from airflow_provider_ha.checkpoints.proof.request import Application
from airflow_provider_ha.jobs.artifacts import fetch_application
from airflow_provider_ha.jobs.model import JobGraph
from airflow_provider_ha.storage.store import ObjectStore


def application_of(store: ObjectStore, graph: JobGraph, directory: Path) -> Application:
    """Return the application of a job graph, as its driver would run it.

    :param store: The job's storage.
    :param graph: Of the run that wrote the checkpoint or savepoint, which names its digest.
    :param directory: Where its files are put; the caller's to make and to remove, and private.
    :raises ObjectMissingError: A file is not in storage.
    :raises RecordCorruptError: A file has another digest, or a name that would leave *directory*.
    :raises StorageUnavailableError: Storage could not be read, or *directory* could not be written.
    """
    fetched = fetch_application(store, graph, directory)
    return Application(
        script=fetched.script,
        arguments=tuple(graph.arguments),
        conf=dict(graph.conf),
        env=dict(graph.env),
        py_files=fetched.py_files,
        files=fetched.files,
        jars=fetched.jars,
        packages=tuple(graph.packages),
        directory=fetched.files_directory,
    )
