"""What a task's log says of the driver's: where it lies, how to read it, and its last lines when the driver is lost.

Invariant: nothing of it can fail a task, or keep a recovery waiting for more than a read. None of it is in an event of
a trigger or in XCom: a driver's output is for people.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_ha.errors import HaError


if TYPE_CHECKING:
    from airflow_provider_ha.control.client import HaClient


def where_is_log(client: HaClient, job_id: str, run: int) -> tuple[int | None, str]:
    """Return the newest attempt of a run, and a sentence about where the log of its driver lies.

    The attempt is ``None`` when it could not be read; the sentence is empty when no driver was started yet.
    """
    from airflow_provider_ha.jobs.host.log_place import newest_log, printed_place  # noqa: PLC0415  # brings pydantic

    try:
        view = client.context(job_id).runs.get(run)
        place = newest_log(job_id, view)
    except HaError:
        return None, ""
    attempt = view.newest.submission.attempt if view.newest is not None else None
    if place is not None:
        return attempt, f"The log of its driver: {place}"
    printed = printed_place(view.newest) if view.newest is not None else ""
    return attempt, f"Its supervisor has not reported where it runs. Should it not: {printed}" if printed else ""


def last_words_of(client: HaClient, job_id: str, run: int, attempt: int | None = None) -> str:
    """Return where the log of a driver lies, and its last lines without secrets; empty when nothing is known.

    :param attempt: The newest one that was started when left out.
    """
    from airflow_provider_ha.control.administration.driver_logs import choose, last_words  # noqa: PLC0415  # brings kazoo and boto3
    from airflow_provider_ha.jobs.host.log_place import log_place  # noqa: PLC0415  # brings pydantic

    try:
        job = client.context(job_id)
        view = job.runs.get(run)
        submission = choose(job_id, view, attempt)
        place, words = log_place(job_id, run, submission), last_words(job, view, submission)
    except HaError:
        return ""
    if place is None:
        return ""
    said = f"Its last lines:\n{words}" if words else "Its last lines are not known on this host."
    return f"The log of attempt {place.attempt}: {place}. {said}"
