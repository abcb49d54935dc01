"""A driver that could not work at its place: the consequence for the next place, by exception type and known facts.

- ``ApplicationRefusedError`` is about the job: every host gives the same answer, so the run ends.
- ``ConfigurationError`` is about the place: no Spark, no component, no S3A, a release that is too old. If a driver of
  the run has had a working directory, another place satisfies the requirement: the run continues there, and the attempt
  is not counted. Otherwise there is no such evidence, and the run ends with the reason while its submitter still
  watches it.
"""

from __future__ import annotations

from typing import TypedDict

from airflow_provider_ha.coordination.records import read_record
from airflow_provider_ha.jobs.job_records import JobRecords
from airflow_provider_ha.jobs.model import Generation


class Judgement(TypedDict):
    """The fields of a ``SubmissionExit`` with the same names."""

    refused: str
    unfit: bool


def judged(job: JobRecords, run: int, reason: str, *, refused: bool) -> Judgement:
    """Return the fields of the exit of a driver that was refused, or whose place lacks something.

    :param reason: Why, for people.
    :param refused: Whether the job itself was refused.
    """
    final = refused or not has_worked(job, run)
    return Judgement(refused=reason if final else "", unfit=not final)


def has_worked(job: JobRecords, run: int) -> bool:
    """Return whether a driver of a run has had a working directory."""
    known = read_record(job.coordinator, job.paths.generation, Generation)
    return known is not None and known[0].run == run
