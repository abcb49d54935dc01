"""Has Spark read every row of state of one batch, with its own data source and its own providers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from airflow_provider_ha.checkpoints.proof.answers import Answer, Event
from airflow_provider_ha.checkpoints.proof.readings import options
from airflow_provider_ha.checkpoints.proof.request import ProofRequest, Reading
from airflow_provider_ha.driver.spark_conf import FORMAT_VERSION
from airflow_provider_ha.proof.spark_errors import chain


def load_state(session: Any, request: ProofRequest, say: Callable[[Answer], None]) -> None:
    """Try every reading, each for itself, and say what came of it."""
    # Made with the first query of a session; the data source takes it for granted (Cannot find endpoint ...).
    session._jsparkSession.streams()  # noqa: SLF001  # pyspark's own way makes only its Python half
    # The data source does not look into the commit log for it.
    session.conf.set(FORMAT_VERSION, "2" if request.state_by_id else "1")
    for reading in request.readings:
        try:
            rows = _rows(session, request, reading)
        except Exception as error:  # noqa: BLE001, PERF203  # whatever Spark raises is its answer to this one
            say(Answer(event=Event.REFUSED, reading=reading, errors=chain(error)))
        else:
            say(Answer(event=Event.LOADED, reading=reading, rows=rows))


def _rows(session: Any, request: ProofRequest, reading: Reading) -> tuple[int, ...]:
    frame = session.read.format("statestore").options(**options(reading, request.batch))
    frame = frame.load(str(request.copy_directory))
    found = {row["partition_id"]: row["count"] for row in frame.groupBy("partition_id").count().collect()}
    # A partition without a row is not in the answer, and was loaded all the same.
    return tuple(found.get(partition, 0) for partition in range(frame.rdd.getNumPartitions()))
