"""What to do about a lost driver: wait, submit again, or give up. The restart strategy decides, this carries it out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_ha.errors import DecisionNeededError, HaError, JobStateError, LeadershipError


if TYPE_CHECKING:
    from airflow_provider_ha.control.client import HaClient


@dataclass(frozen=True, slots=True)
class Step:
    """What was done, and what comes next.

    :param sentence: For the log, and for the error when it is over.
    :param wait: Seconds until the loss is to be recovered; ``None`` when it need not be.
    """

    sentence: str
    wait: float | None = None


def after_loss(client: HaClient, job_id: str, *, run: int, by: str) -> Step:
    """Recover the loss of the newest submission of *run*: the trigger has waited for the restart strategy's delay.

    Several watchers may do this at one time: a loss is claimed once in ZooKeeper, and the second watcher finds the
    recovery of the first. A run that has used up its attempts gets the result FAILED here; the trigger then reports it.

    :param by: Caller, as recorded for people.
    :raises DecisionNeededError: The run goes on only after a decision of its user.
    :raises HaError: A retryable one leaves everything as it was.
    """
    job = client.job(job_id)
    snapshot = job.snapshot()
    if snapshot.run is None or snapshot.run.run.number != run:
        return Step(f"Run {run} is not the newest run of job {job_id!r} any more")
    try:
        submitted = job.recover(by=by, wait=False)
    except DecisionNeededError:
        raise
    except (JobStateError, LeadershipError) as error:
        # Ended, given up or recovered between the look and the act: the next look of the trigger will see which.
        return Step(f"Nothing to submit again: {error}")
    made = "was submitted again from its persisted graph" if submitted.created else "needs no new submission"
    return Step(f"Run {run} of job {job_id!r} {made}: attempt {submitted.attempt}")


def later(error: HaError, seconds: float) -> Step:
    """Return the step for a cluster that cannot be reached just now: no Airflow retry is spent on that."""
    return Step(f"The loss cannot be recovered yet, trying again in {seconds:.0f} s: {error}", wait=seconds)
