"""A driver that could not work where it was placed: what that says about the next place. By type, and by what is known.

- ``ApplicationRefusedError`` is about the job: every host gives the same answer, so the run ends.
- ``ConfigurationError`` is about the place: no Spark, no component, no S3A, a release that is too old. When a driver of
  the run has had a working directory, another place has what is missing here: the run goes on there, and the attempt
  is not counted. Before that nothing says so, and the run ends with the reason while its submitter still looks at it.
"""

from __future__ import annotations

from typing import TypedDict

from airflow_provider_ha.coordination.records import read_record
from airflow_provider_ha.jobs.job_records import JobRecords
from airflow_provider_ha.jobs.model import Generation


class Judgement(TypedDict):
    """The fields of that name of a ``SubmissionExit``."""

    refused: str
    unfit: bool


def judged(job: JobRecords, run: int, reason: str, *, refused: bool) -> Judgement:
    """Return what the exit of a driver says that was refused, or whose place lacks something.

    :param reason: Why, for people.
    :param refused: Whether the job is what was refused.
    """
    final = refused or not has_worked(job, run)
    return Judgement(refused=reason if final else "", unfit=not final)


def has_worked(job: JobRecords, run: int) -> bool:
    """Whether a driver of a run has had a working directory."""
    known = read_record(job.coordinator, job.paths.generation, Generation)
    return known is not None and known[0].run == run
