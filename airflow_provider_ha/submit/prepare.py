"""What a run is made of: the application's files in storage, its graph, and what it starts from."""

from __future__ import annotations

from airflow_provider_ha.jobs.artifacts import upload_application
from airflow_provider_ha.jobs.model import JobGraph
from airflow_provider_ha.submit.context import JobContext
from airflow_provider_ha.submit.requests import SubmitRequest


def upload(job: JobContext, request: SubmitRequest) -> JobGraph:
    """Put the files of an application into storage and return its graph.

    :raises ConfigurationError: A file is not there; nothing was uploaded.
    """
    files = upload_application(
        job.store,
        application=request.application,
        py_files=request.py_files,
        files=request.files,
        jars=request.jars,
    )
    return JobGraph(
        job_id=job.job_id,
        name=request.name or job.job_id,
        application=files.application,
        arguments=tuple(request.arguments),
        modules=files.modules,
        py_files=files.py_files,
        files=files.files,
        jars=files.jars,
        packages=tuple(request.packages),
        conf=dict(request.conf),
        env=dict(request.env),
        master=request.master,
        driver_memory=request.driver_memory,
        options=request.options,
    )
