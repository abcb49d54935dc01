"""Child process of a proof: Spark loads a batch from a copy, and starts the query on it.

``python -m airflow_provider_ha.host.proof.main REQUEST`` answers on stdout, one JSON object per line. Spark and the
script write to stderr. The process ends without stopping Spark, because its parent kills the whole process tree.
"""

from __future__ import annotations

import logging
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from airflow_provider_ha.argument_secrets import script_secrets
from airflow_provider_ha.checkpoints.verify.proof_protocol import (
    ProofEvent,
    ProofMessage,
    ProofRequest,
    StateReading,
    is_refusal,
    options,
)
from airflow_provider_ha.driver.script_environment import WORKER_PATH, log_beside_the_script, worker_path
from airflow_provider_ha.driver.spark_conf import FORMAT_VERSION, gateway
from airflow_provider_ha.host.proof.script_start import chain, start_query
from airflow_provider_ha.host.supervisor.spark_submit import render
from airflow_provider_ha.jobs.drivers.driver_spec import write_private
from airflow_provider_ha.redaction import public, remember
from airflow_provider_ha.uris import file_uri, list_item


log = logging.getLogger(__name__)

_DYING_SECONDS = 1.0
# Up to this size Spark is busy with its own start, and the second compiler does not pay off.
_SMALL = 64 << 20
_QUICK_START = "-XX:TieredStopAtLevel=1"


class AnswerWriter:
    """Writer of answers. Once the JVM is gone, later errors of Spark do not count as answers."""

    def __init__(self, descriptor: int) -> None:
        self._stream = os.fdopen(descriptor, "w", encoding="utf-8")
        #: Whether Spark has refused a reading; the query is then not started.
        self.refused = False

    def say(self, answer: ProofMessage) -> None:
        """Write an answer and flush it."""
        if answer.event is ProofEvent.REFUSED:
            if (died := jvm_death()) is not None:
                answer = ProofMessage(event=ProofEvent.UNABLE, reason=died)
            self.refused = self.refused or is_refusal(answer.errors)
        answer = _public(answer)
        self._stream.write(answer.model_dump_json() + "\n")
        self._stream.flush()


def _public(answer: ProofMessage) -> ProofMessage:
    """Return a publishable answer: the script's own exceptions may contain its arguments."""
    errors = tuple(error.model_copy(update={"message": public(error.message)}) for error in answer.errors)
    return answer.model_copy(update={"reason": public(answer.reason), "errors": errors})


def main(arguments: list[str]) -> None:
    """Execute the request in the request file."""
    voice = AnswerWriter(os.dup(1))
    os.dup2(2, 1)
    log_beside_the_script()
    request = ProofRequest.model_validate_json(Path(arguments[0]).read_bytes())
    if (script := request.application) is not None:
        remember(script_secrets(script.conf, script.env, script.arguments))
    try:
        prove(request, voice)
    except Exception as error:
        log.exception("the proof failed")
        voice.say(ProofMessage(event=ProofEvent.UNABLE, reason=jvm_death() or f"{type(error).__name__}: {error}"))
    leave(voice)


def leave(voice: AnswerWriter) -> NoReturn:
    """Exit immediately: the script executes no further code, and the parent ends Spark's threads and the JVM."""
    voice.say(ProofMessage(event=ProofEvent.DONE))
    os._exit(0)


def prove(request: ProofRequest, voice: AnswerWriter) -> None:
    """Load, then start, and report each result."""
    properties = spark_properties(request)
    write_private(request.scratch / "spark.properties", render(properties))
    file = shlex.quote(str(request.scratch / "spark.properties"))
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--properties-file {file} pyspark-shell"
    jvm = gateway()
    keep_at_home(jvm, {key: value for key, value in properties.items() if key in forced(request)})
    session = _session() if request.readings else None
    voice.say(ProofMessage(event=ProofEvent.SPARK))
    if session is not None:
        load_state(session, request, voice.say)
        session.stop()
    if request.application is not None and not voice.refused:
        os.chdir(request.application.directory or request.application.script.parent)
        start_query(request, voice.say, partial(leave, voice))


def forced(request: ProofRequest) -> dict[str, str]:
    """Return the conf that applications cannot change: everything stays on this host, in the scratch directory."""
    temporary = request.scratch / "spark"
    return {
        "spark.master": f"local[{request.cores}]",
        "spark.submit.deployMode": "client",
        "spark.driver.memory": request.heap,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.local.dir": str(temporary),
        "spark.sql.warehouse.dir": file_uri(temporary / "warehouse"),
        "spark.eventLog.enabled": "false",
        "spark.sql.streaming.checkpointLocation": file_uri(temporary / "checkpoints"),
    }


def spark_properties(request: ProofRequest) -> dict[str, str]:
    """Return the conf of the JVM: the application's, overridden by the proof's requirements."""
    application, temporary = request.application, request.scratch / "spark"
    temporary.mkdir(exist_ok=True)
    values = dict(application.conf) if application else {}
    said = values.get("spark.driver.extraJavaOptions", "")
    quick = f"{_QUICK_START} " if request.size <= _SMALL else ""
    # If an option appears twice, the JVM takes the last one: the application's.
    escaped = str(temporary).replace("\\", r"\\").replace('"', r"\"")
    values["spark.driver.extraJavaOptions"] = f'{quick}{said} -Djava.io.tmpdir="{escaped}"'.strip()
    lists = {
        "spark.submit.pyFiles": map(list_item, application.py_files) if application else (),
        "spark.files": map(list_item, application.files) if application else (),
        "spark.jars": map(list_item, application.jars) if application else (),
        "spark.archives": application.archives if application else (),
        "spark.jars.packages": application.packages if application else (),
    }
    for key, items in lists.items():
        all_of_them = [item for item in values.get(key, "").split(",") if item] + list(items)
        if all_of_them:
            values[key] = ",".join(all_of_them)
    if application is not None:
        values[WORKER_PATH] = worker_path(values, application.script.parent)
    return values | forced(request)


def keep_at_home(jvm: Any, conf: dict[str, str]) -> None:
    """Force *conf* on every context of this process, even if the script sets another value."""
    from pyspark import SparkContext  # pyspark is imported inside functions

    make: Callable[..., Any] = SparkContext._initialize_context  # noqa: SLF001  # every context comes through it

    def initialize(context: Any, java_conf: Any) -> Any:
        chosen = java_conf if java_conf is not None else jvm.SparkConf()
        for key, value in conf.items():
            chosen.set(key, value)
        return make(context, chosen)

    SparkContext._initialize_context = initialize  # type: ignore[method-assign, assignment]  # noqa: SLF001  # the same


def jvm_death() -> str | None:
    """Return how the JVM died; ``None`` while it lives, or if it was never started."""
    from pyspark import SparkContext  # as above

    made = SparkContext._gateway  # noqa: SLF001  # it has no public name
    if made is None:
        return None
    try:
        # Its sockets close before it is reaped.
        return f"Spark's JVM ended with code {made.proc.wait(timeout=_DYING_SECONDS)}"
    except subprocess.TimeoutExpired:
        return None


def _session() -> Any:
    from pyspark.sql import SparkSession  # as above

    return SparkSession.builder.appName("spark-ha prove").getOrCreate()


def load_state(session: Any, request: ProofRequest, say: Callable[[ProofMessage], None]) -> None:
    """Try every reading independently, and report each result."""
    # Created with the first query of a session; the data source takes it for granted (Cannot find endpoint ...).
    session._jsparkSession.streams()  # noqa: SLF001  # pyspark's own way makes only its Python half
    # The data source does not read it from the commit log.
    session.conf.set(FORMAT_VERSION, "2" if request.state_by_id else "1")
    opened = os.open(request.copy_directory, os.O_RDONLY | os.O_DIRECTORY)
    # Through a name without special characters, because the data source escapes a path twice (`%20`, then `%2520`), and
    # then reads elsewhere.
    place = f"/proc/{os.getpid()}/fd/{opened}"
    for reading in request.readings:
        try:
            rows = _rows(session, place, request.batch, reading)
        except Exception as error:  # noqa: BLE001, PERF203  # any exception of Spark is its answer to this reading
            say(ProofMessage(event=ProofEvent.REFUSED, reading=reading, errors=chain(error)))
        else:
            say(ProofMessage(event=ProofEvent.LOADED, reading=reading, rows=rows))
    os.close(opened)


def _rows(session: Any, place: str, batch: int, reading: StateReading) -> tuple[int, ...]:
    frame = session.read.format("statestore").options(**options(reading, batch)).load(place)
    found = {row["partition_id"]: row["count"] for row in frame.groupBy("partition_id").count().collect()}
    # A partition without a row is missing from the answer, although it was loaded.
    return tuple(found.get(partition, 0) for partition in range(frame.rdd.getNumPartitions()))


if __name__ == "__main__":
    main(sys.argv[1:])
