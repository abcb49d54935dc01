"""Our errors become Airflow's here, and nowhere else.

Whether a retry can help is a property of the error's type. What cannot get better by itself fails the task for good: a
retry would only hide the message behind five copies of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow_provider_ha.compat.sdk import AirflowException, AirflowFailException, AirflowSkipException
from airflow_provider_ha.errors import HaError, UnknownJobError


@contextmanager
def airflow_errors() -> Iterator[None]:
    """Raise ``AirflowException`` for an error that a retry can resolve, ``AirflowFailException`` for the rest."""
    try:
        yield
    except HaError as error:
        kind = AirflowException if error.retryable else AirflowFailException
        raise kind(str(error)) from error


@contextmanager
def unknown_job_skips(*, wanted: bool) -> Iterator[None]:
    """Skip the task for a job that the cluster does not have, where that is *wanted*: a schedule may be there first.

    :raises UnknownJobError: It is not wanted.
    """
    try:
        yield
    except UnknownJobError as error:
        if wanted:
            raise AirflowSkipException(f"{error} The task is skipped: there is nothing to act on.") from error
        raise


def read_log(job_id: str, run: object) -> str:
    """Return a sentence with the command that prints the log of a run's driver."""
    return f"Read the driver's log with `spark-ha job logs {job_id} --run {run}`."


def because(reason: str | None) -> str:
    """Return a reason as the end of a sentence: with one full stop, also when it has its own."""
    return f"{(reason or 'no reason was given').rstrip('.')}."
