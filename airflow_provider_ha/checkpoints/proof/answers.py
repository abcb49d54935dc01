"""What the child that runs Spark says: one line of JSON for each thing that it found out, at once.

Invariant: what was said stays said when the child dies after it; what it did not say is unknown.
"""

from __future__ import annotations

from enum import Enum

from airflow_provider_ha.checkpoints.proof.request import StateReading
from airflow_provider_ha.records import Model


class Event(str, Enum):
    """What a line is about."""

    SPARK = "spark"  # Spark is up
    LOADED = "loaded"  # one reading was done
    LOADED_ALL = "loaded_all"  # all readings were tried
    STARTED = "started"  # the query committed the batch after N
    REFUSED = "refused"  # Spark said no: to the reading that is named, else to the start
    UNABLE = "unable"  # it could not be found out, whatever Spark may say
    DONE = "done"  # the child ends in order


class SparkError(Model):
    """One throwable.

    :param error_class: Spark's condition (``CANNOT_LOAD_STATE_STORE.UNCATEGORIZED``) where it has one, else the class.
    :param message: The first line of what it says.
    """

    error_class: str
    message: str


class Answer(Model):
    """One line.

    :param reading: What was read.
    :param rows: Of each partition, in their order.
    :param operators: Rows of state of each stateful operator of the query, in their order, after the batch.
    :param query: Name of the query that was started.
    :param errors: From the outermost to the cause.
    :param reason: Why it could not be found out.
    """

    event: Event
    reading: StateReading | None = None
    rows: tuple[int, ...] = ()
    operators: tuple[int, ...] = ()
    query: str = ""
    errors: tuple[SparkError, ...] = ()
    reason: str = ""
