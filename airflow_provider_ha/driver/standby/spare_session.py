"""The Spark session of a standby driver, made and warmed up before the driver leads.

A JVM that has executed batches commits the first batch of a recovery several times faster than a new one: classes are
loaded, code is compiled. Batches of any query have this effect. So the standby driver executes queries of this package
on the local disk, and none of the script's code runs before the driver leads.

Code of the user that Spark itself runs in a session would run: listeners and plugins that its conf names, and a Hive
metastore. With such a conf no session is made in advance.

The queries run in a separate session of the same context: a query that has ended would make the script's
``awaitAnyTermination()`` return immediately, and each session has a separate query manager.

On a cluster the executors do not see the local disk of the driver. There the queries run in a local context, which
warms the JVM of the driver; then the context of the cluster follows, whose executors execute a plain aggregation.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from airflow_provider_ha.driver.queries.checked_writer import WriterCalls
from airflow_provider_ha.errors import JobStateError
from airflow_provider_ha.jobs.options.conf import FILE_SYSTEM_CLASS, PREFIX
from airflow_provider_ha.storage.durable import remove_tree


log = logging.getLogger(__name__)

_RUNS_CODE = (  # conf keys whose classes Spark runs with a session
    "spark.extraListeners",
    "spark.plugins",
    "spark.sql.queryExecutionListeners",
    "spark.sql.streaming.streamingQueryListeners",
)
_CATALOG = "spark.sql.catalogImplementation"
_SHOWN_ONLY = frozenset({"spark.app.name"})  # a script may choose another name; nothing but a page shows it
BATCHES = 5
WARM_UP_SECONDS = 300.0  # of one query
MOST_SECONDS = 4 * WARM_UP_SECONDS  # of the warm-up
_LOOK_SECONDS = 0.2
_KEYS = 10_000
_LOCAL_MASTER = "local[2]"
_ALL = 2**31 - 1  # executors
_KEEP_SECONDS = 5.0
ASK_SECONDS, ASK_PERIOD = 30.0, 120.0  # for which, and after which, executors are requested that are not there
GIVE_BACK_SECONDS = 60.0  # of a job that is not RUNNING: its takeover takes seconds
_DYNAMIC = "spark.dynamicAllocation.enabled"
_PARTITIONS, _MOST_PARTITIONS = "spark.sql.shuffle.partitions", 4  # a batch of 200 would take a minute


def reason_against(jvm: Any) -> str:
    """Return why no session can be made in advance with the conf of this JVM; empty without a reason."""
    conf = jvm.java.lang.System.getProperty
    for key in _RUNS_CODE:
        if conf(key):
            return f"{key} is set, and its classes may only run in a driver that leads"
    if conf(_CATALOG) == "hive":
        return f"{_CATALOG} is hive, and two drivers cannot open an embedded metastore"
    return ""


def shrink_heap(jvm: Any) -> None:
    """Return to the host what the warm-up has left in the heap of a JVM: a fifth of its memory.

    The collector G1, Java's default, does so at a full collection, and keeps room for new objects. With less room a
    takeover is slower: it has to grow the heap. The serial and the parallel collector return little or nothing.
    """
    jvm.java.lang.System.gc()


class SpareSession:
    """A session that no script has.

    :param session: Of pyspark.
    """

    def __init__(self, session: Any) -> None:
        self._session = session

    @classmethod
    def open(cls, *, local: bool = False) -> SpareSession:
        """Make a session with the conf of this JVM.

        :param local: With executors in this JVM, and not with those of the conf's master.
        """
        from pyspark.sql import SparkSession  # pyspark is imported inside functions

        builder = SparkSession.builder
        if local:  # it ends with the warm-up, and no page and no history shows it
            builder = builder.master(_LOCAL_MASTER).config("spark.ui.enabled", "false")
            builder = builder.config("spark.eventLog.enabled", "false")
        return cls(builder.getOrCreate())

    def fits(self, wanted: Mapping[str, Any] | None) -> bool:
        """Return whether a script that sets this conf may have it.

        It may not when a value differs that Spark reads only at the start of a context or a session.
        """
        if wanted is None:
            log.info("the session is made again: the script makes a context")
            return False
        if self._context.isStopped():
            log.info("the session is made again: Spark has stopped it")
            return False
        fixed = sorted(key for key, value in wanted.items() if self._is_fixed(key, str(value)))
        if fixed:
            log.info("the session is made again, because the script sets %s", ", ".join(fixed))
        return not fixed

    def _is_fixed(self, key: str, value: str) -> bool:
        conf = self._session.conf
        return key not in _SHOWN_ONLY and str(conf.get(key, None)) != value and not conf.isModifiable(key)

    @property
    def _context(self) -> Any:
        """Spark's context, a Java object."""
        return self._session._jsc.sc()  # noqa: SLF001  # pyspark has no public way to it

    def executors(self, most: int, is_running: Callable[[], bool]) -> HeldExecutors:
        """Return the executors of a session on a cluster; the parameters are those of :class:`HeldExecutors`."""
        return HeldExecutors(self._session, most, is_running)

    @property
    def hadoop_configuration(self) -> Any:
        """Hadoop's configuration of the context, a Java object."""
        return self._session._jsc.hadoopConfiguration()  # noqa: SLF001  # pyspark has no public way to it

    def close(self) -> None:
        """Stop the session and its context."""
        self._session.stop()

    def warm_up(self, calls: WriterCalls, directory: Path, goes_on: Callable[[], bool], *, layered: bool) -> None:
        """Execute batches of stateful queries, each twice: the second time from the checkpoint of the first.

        :param directory: Folder for their input and their checkpoints; it is removed.
        :param goes_on: Whether the warm-up is still wanted; asked several times a second.
        :param layered: Whether the checkpoints are written with the component, as the job's are.
        :raises JobStateError: It is not.
        """
        from pyspark.sql import functions as f  # pyspark is imported inside functions

        session, source = self._session.newSession(), directory / "in"
        partitions = min(int(session.conf.get(_PARTITIONS)), _MOST_PARTITIONS)
        session.conf.set(_PARTITIONS, str(partitions))
        if layered:
            session.conf.set(f"fs.{PREFIX}file.impl", FILE_SYSTEM_CLASS)
        source.mkdir(parents=True, exist_ok=True)
        stream = session.readStream.schema("ts timestamp, key long, value long").option("maxFilesPerTrigger", 1)
        rows = stream.json(source.as_uri())
        counts = rows.groupBy("key").agg(f.count("*").alias("n"), f.max("value").alias("last"))
        windows = rows.withWatermark("ts", "1 minute").groupBy(f.window("ts", "1 minute"), "key").count()
        try:
            for turn in range(2):
                write_rows(source, turn)
                for name, frame, mode in (("counts", counts, "update"), ("windows", windows, "append")):
                    writer = frame.writeStream.format("noop").outputMode(mode).trigger(availableNow=True)
                    location = (PREFIX if layered else "") + (directory / name).as_uri()
                    writer._jwrite = writer._jwrite.option("checkpointLocation", location)  # noqa: SLF001  # the patched option() keeps a script's own location
                    _finish(calls, calls.start(writer, None), goes_on)
            # Spark would go on maintaining its stores, whose files are removed.
            stores = session._jvm.org.apache.spark.sql.execution.streaming.state  # noqa: SLF001  # there is no public way
            getattr(getattr(stores, "StateStore$"), "MODULE$").unloadAll()
        finally:
            remove_tree(directory)


class HeldExecutors:
    """Executors of a standby driver on a cluster: few while it waits, those of the job once it leads. Owns a thread.

    They never keep a job from its own executors: a cluster gives what becomes free to the application that waits
    longest. So they are requested for a moment at a time, while the job is RUNNING, and given back when another driver
    does not get that far.

    :param session: Of pyspark. Its cluster grants it all the executors that it may have; those beyond the limit are
        given back.
    :param most: Limit while it waits. With dynamic allocation Spark itself sets the limit.
    :param is_running: Returns whether the job is RUNNING under another driver.
    """

    def __init__(self, session: Any, most: int, is_running: Callable[[], bool]) -> None:
        self._session = session
        self._context = session._jsc.sc()  # noqa: SLF001  # pyspark has no public way to it
        self._most = most
        self._is_running = is_running
        self._is_dynamic = str(session.conf.get(_DYNAMIC, "false")).lower() == "true"
        self._limit: int | None = None
        self._began = self._running_at = time.monotonic()
        self._leads = threading.Event()
        self._changing = threading.Lock()  # of the number, by the limit or by its end
        self._warmed: frozenset[str] = frozenset()
        self._thread = threading.Thread(target=self._run, name="held-executors", daemon=True)

    @property
    def are_ready(self) -> bool:
        """Whether one has executed tasks, or none is held: Spark requests them itself when there are tasks."""
        return bool(self._warmed) or not self._most or self._is_dynamic

    def start(self) -> None:
        """Begin to limit them."""
        self._thread.start()

    def lift(self) -> None:
        """End the limit: the driver leads. Does not wait."""
        self._leads.set()
        if not self._is_dynamic:
            threading.Thread(target=self._request_all, name="all-executors", daemon=True).start()

    def _request_all(self) -> None:
        try:
            with self._changing:
                self._request(_ALL)
        except Exception:  # of Spark: the script has stopped the session, and its own has no limit
            log.warning("the limit of executors cannot be lifted", exc_info=True)

    def _run(self) -> None:
        while not self._leads.is_set():
            try:
                self._keep()
            except Exception:  # of Spark: a driver leads without executors too
                log.warning("the number of executors cannot be changed now", exc_info=True)
            self._leads.wait(_KEEP_SECONDS)

    def _keep(self) -> None:
        """Give back what is too much, and execute tasks on what is new."""
        now = time.monotonic()
        if self._is_running():
            self._running_at = now
        there = self._ids()
        limit = held_limit(self._most, len(there), now - self._began, now - self._running_at)
        with self._changing:
            if self._leads.is_set():
                return
            if not self._is_dynamic:
                there = self._limit_to(limit, there)
        if there - self._warmed:
            self._execute(len(there))
        self._warmed = there

    def _limit_to(self, limit: int, there: frozenset[str]) -> frozenset[str]:
        """Return the executors that stay."""
        surplus = sorted(there, key=int)[limit:]
        if surplus:
            self._context.killExecutors(self._session._jvm.PythonUtils.toSeq(surplus))  # noqa: SLF001  # as above
        if surplus or limit != self._limit:  # Spark has reduced its own number by those that it killed
            self._request(limit)
            self._limit = limit
        return there - set(surplus)

    def _ids(self) -> frozenset[str]:
        return frozenset(filter(None, str(self._context.getExecutorIds().mkString(",")).split(",")))

    def _request(self, number: int) -> None:
        maps = self._session._jvm.scala.collection.immutable  # noqa: SLF001  # as above
        self._context.requestTotalExecutors(number, 0, getattr(getattr(maps, "Map$"), "MODULE$").empty())

    def _execute(self, executors: int) -> None:
        tasks = executors * int(self._session.sparkContext.defaultParallelism)
        for _ in range(BATCHES):
            self._session.range(0, _KEYS * tasks, 1, tasks).groupBy("id").count().groupBy("count").count().collect()


def held_limit(most: int, held: int, age: float, stopped: float) -> int:
    """Return how many executors a standby driver may have now. Pure.

    :param most: Limit of the job.
    :param held: Number that it has.
    :param age: Seconds since it has begun to request them.
    :param stopped: Seconds since the job was last seen RUNNING under another driver.
    """
    if stopped > GIVE_BACK_SECONDS:
        return 0
    asks = age % ASK_PERIOD < ASK_SECONDS and stopped <= 0
    return most if asks else min(held, most)


def write_rows(folder: Path, turn: int) -> None:
    """Write the input of one turn: a file for each batch, with a row for each key."""
    for batch in range(BATCHES):
        minute = turn * BATCHES + batch
        lines = (f'{{"ts":"2024-01-01T00:{minute:02d}:00Z","key":{key},"value":{minute}}}\n' for key in range(_KEYS))
        (folder / f"{turn}-{batch}.json").write_text("".join(lines), encoding="utf-8")


def _finish(calls: WriterCalls, query: Any, goes_on: Callable[[], bool]) -> None:
    """Wait for the end of a query; pyspark raises its failure."""
    end = time.monotonic() + WARM_UP_SECONDS
    while not calls.await_termination(query, _LOOK_SECONDS):
        if not goes_on() or time.monotonic() > end:
            query.stop()
            raise JobStateError("the warm-up was interrupted, or took too long")
