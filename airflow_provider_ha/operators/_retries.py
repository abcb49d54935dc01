"""How often a task of this package is tried when its DAG does not say so.

Airflow 3.3 can fail any deferrable task that did nothing wrong: the scheduler processes the "success" of the worker
process that deferred after the trigger has fired, and takes it for a task that was killed (apache/airflow #66374,
#67287, #72716). A restart of Airflow under load costs a waiting task three tries. No operator can prevent that, but a
retry costs nothing here: it finds its run or its operation again by the task's request id and goes on waiting. A task
without a retry loses its job at the first of these.

A run or operation that ended in FAILED raises ``AirflowFailException`` and is not tried again.

Invariant: ``retries`` set on the task, in ``default_args`` or as Airflow's ``default_task_retries`` apply exactly, zero
included, with Airflow's own delay.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow_provider_ha.compat.sdk import BaseOperator


# What Airflow's configuration says for every task; 0 where it says nothing.
DEFAULT_RETRIES: int = BaseOperator.retries or 0
DEFAULT_RETRY_DELAY: timedelta = BaseOperator.retry_delay

# A stream runs for a year with a loss a day and a weekly restart of Airflow: 521 tries. The rest outlasts a night
# without ZooKeeper, at some 30 s a try. Airflow shows "1 of 1000".
FOLLOW_RETRIES: int = DEFAULT_RETRIES or 999
# A sensor, a stop or a savepoint is over in minutes, or waits through some 30 restarts of Airflow.
WAIT_RETRIES: int = DEFAULT_RETRIES or 99
# A rehearsal may hold a worker for an hour: its tries are for a Spark that gave no answer.
DRILL_RETRIES: int = DEFAULT_RETRIES or 2

# Compared by identity: it says "not set", and is what ``partial()`` takes for a mapped task.
RETRY_DELAY = timedelta(seconds=10)
DRILL_RETRY_DELAY = timedelta(minutes=5)


def is_own(retries: int | None, own: int) -> bool:
    """Whether *retries* are this package's default: neither the DAG nor Airflow's configuration set any.

    :param own: Number that the operator has by itself.
    """
    return not DEFAULT_RETRIES and retries == own


def retry_kwargs(retries: int | None, retry_delay: timedelta | float, own: int) -> dict[str, Any]:
    """Return the keyword arguments of Airflow's operators for what a task was given.

    :param retries: What was given; *own* when nothing was.
    :param retry_delay: What was given; one of the delays of this module when nothing was.
    :param own: Number that the operator has by itself.
    """
    unset = retry_delay is RETRY_DELAY or retry_delay is DRILL_RETRY_DELAY
    delay = DEFAULT_RETRY_DELAY if unset and not is_own(retries, own) else retry_delay
    return {"retries": retries, "retry_delay": delay}
