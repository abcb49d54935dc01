"""Scripts one after the other in a process with a spare session each; prints as JSON what they got. Argument: a folder.

Runs as a plain program: the patches and the spare session are the product's, without a job around them.
"""

import json
import sys
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.driver.queries.checked_writer import WriterCalls
from airflow_provider_ha.driver.queries.patches import Patches
from airflow_provider_ha.driver.queries.query_registry import QueryRegistry
from airflow_provider_ha.driver.script import Lifecycle
from airflow_provider_ha.driver.spark_conf import gateway, prepare_session_conf
from airflow_provider_ha.driver.standby.spare_session import SpareSession, shrink_heap
from airflow_provider_ha.driver.standby.standby_driver import PlainStarter


folder = Path(sys.argv[1])
prepare_session_conf(gateway(), 100)
calls = WriterCalls.of_pyspark()
patches = Patches(Lifecycle(), QueryRegistry(SystemClock()), PlainStarter(calls))
patches.apply()
found: dict[str, Any] = {}


def spare() -> str:
    """Make a spare session; return the id of its application."""
    patches.spare = made = SpareSession.open()
    if "warm" not in found:
        made.warm_up(calls, folder / "warm-up", lambda: True, layered=False)
        found["warm"] = not (folder / "warm-up").exists()
    context = SparkContext._active_spark_context
    assert context is not None
    return str(context.applicationId)


def heap() -> int:
    """Return the bytes that the heap of the JVM has from the host."""
    management = gateway().java.lang.management.ManagementFactory
    return int(management.getMemoryMXBean().getHeapMemoryUsage().getCommitted())


def leave(session: Any) -> None:
    """End a script."""
    patches._stops = True
    session.stop()
    patches._stops = False


before = spare()
found["heap"] = [heap()]
shrink_heap(gateway())
found["heap"].append(heap())
session = SparkSession.builder.appName("any").config("spark.sql.shuffle.partitions", "3").getOrCreate()
found["plain script"] = session.sparkContext.applicationId == before
found["its conf"] = session.conf.get("spark.sql.shuffle.partitions")
found["a query has ended"] = session.streams.awaitAnyTermination(1)
found["second session"] = SparkSession.builder.getOrCreate().sparkContext.applicationId == before
leave(session)

before = spare()
session = SparkSession.builder.config("spark.task.maxFailures", "7").getOrCreate()
found["static conf"] = session.sparkContext.applicationId == before
found["static value"] = session.sparkContext.getConf().get("spark.task.maxFailures")
leave(session)

before = spare()
context = SparkContext(conf=SparkConf().setAppName("own"))
found["own context"] = context.applicationId == before
found["rows"] = SparkSession(context).range(5).count()
leave(context)

print(json.dumps(found))
