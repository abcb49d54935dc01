"""Whether a Spark master keeps all executors below the driver's JVM, where a supervisor can prove their death.

Executors of ``local`` are threads of that JVM; those of ``local-cluster`` are its child processes. A standalone, YARN
or Kubernetes executor is a process of another host: it goes on for minutes after its driver has died, and a task that
writes through ``foreachBatch`` then meets the next epoch, which executes the same batch.
"""

from __future__ import annotations

import re

from airflow_provider_ha.errors import ConfigurationError


# As ``SparkContext`` reads them: threads, or executors, cores and megabytes.
_OF_SPARK = re.compile(r"local|local\[(\*|[1-9]\d*)(\s*,\s*\d+)?\]|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]")
_LOCAL = re.compile(r"local(-cluster)?(\[[^\]]*\])?")


def is_local(master: str) -> bool:
    """Return whether every executor of *master* is the driver's JVM or a descendant of it."""
    return _LOCAL.fullmatch(master) is not None


def is_impossible(master: str) -> bool:
    """Return whether Spark has no local master of that form: each driver would fail with it."""
    return master.startswith("local") and _OF_SPARK.fullmatch(master) is None


def check_possible(master: str) -> None:
    """Refuse a master that Spark does not know.

    :raises ConfigurationError: It is one.
    """
    if is_impossible(master):
        raise ConfigurationError(
            f"Spark knows no master {master!r}",
            next_step="Use local[N] or local[*], with a number of threads, or local-cluster[executors,cores,megabytes]",
        )


def remote_reason(master: str) -> str:
    """Return why a remote *master* is refused, as the message of an error."""
    return (
        f"the Spark master is {master!r}: its executors run on other hosts, where nothing proves that they are dead "
        "before a recovery starts, so two attempts can write at one time"
    )


REMOTE_NEXT_STEP = (
    "Use local[...], or allow it by name (allow_remote_executors=True of the operator, --allow-remote-executors of the "
    "command) when the sinks bear a second writer"
)
