"""Output of the child that runs Spark: one line of JSON for each result, written immediately.

Invariant: a written line counts even when the child dies after it; a result without a line is unknown.
"""

from __future__ import annotations

from enum import Enum

from airflow_provider_ha.checkpoints.proof.request import StateReading
from airflow_provider_ha.records import Model


class Event(str, Enum):
    """The subject of a line."""

    SPARK = "spark"  # Spark is up
    LOADED = "loaded"  # one reading was done
    LOADED_ALL = "loaded_all"  # all readings were tried
    STARTED = "started"  # the query committed the batch after N
    REFUSED = "refused"  # Spark refused the named reading, else the start
    UNABLE = "unable"  # the result could not be determined; an answer of Spark does not change that
    DONE = "done"  # the child ends in order


class SparkError(Model):
    """A throwable of Spark.

    :param error_class: Spark's condition (``CANNOT_LOAD_STATE_STORE.UNCATEGORIZED``) where it has one, else the class.
    :param message: First line of the message.
    """

    error_class: str
    message: str


class Answer(Model):
    """Line of the output.

    :param reading: The reading.
    :param rows: Rows of the partitions, in their order.
    :param operators: Rows of state of the query's stateful operators, in their order, after the batch.
    :param query: Name of the query that was started.
    :param errors: From the outermost to the cause.
    :param reason: Why the result is unknown.
    """

    event: Event
    reading: StateReading | None = None
    rows: tuple[int, ...] = ()
    operators: tuple[int, ...] = ()
    query: str = ""
    errors: tuple[SparkError, ...] = ()
    reason: str = ""
