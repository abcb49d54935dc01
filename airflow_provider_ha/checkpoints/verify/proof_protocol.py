"""Protocol with the child that asks Spark: request, readings of the state, lines of output, and refusals.

It travels in a file that only its owner can read: conf, arguments and paths of an application may hold secrets.

Invariant: a written line counts even when the child dies after it; a result without a line is unknown.

Invariant: a lack of memory, of disk, of a class or of an answer from elsewhere is never called damage (contract 6).

Invariant: from the copy alone, which has no newer state. A store with column families (``transformWithState``) is
loaded by any of its variables; all are read, as each has separate rows and a separate schema.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Literal

from airflow_provider_ha.checkpoints.spark.checkpoint_layout import STATE
from airflow_provider_ha.checkpoints.spark.closure import StateReader, pinned_partitions
from airflow_provider_ha.checkpoints.spark.files import read_text
from airflow_provider_ha.checkpoints.spark.metadata_log import read_commits, read_offsets
from airflow_provider_ha.checkpoints.spark.operators import newest_metadata, read_operator
from airflow_provider_ha.checkpoints.spark.tree import Tree
from airflow_provider_ha.errors import CheckpointCorruptError
from airflow_provider_ha.records import Model


# stateStore: a store by its name; variable: one of transformWithState; timers: its registered timers.
ReadingKind = Literal["store", "variable", "timers"]


class Application(Model):
    """Script that starts the query, with its environment.

    :param script: A PySpark script, absolute.
    :param conf: Spark's conf. The proof always sets master, addresses and temporary directories.
    :param env: Environment of the script, over that of the host.
    :param directory: Its working directory, absolute; by default the script's.
    """

    script: Path
    arguments: tuple[str, ...] = ()
    conf: dict[str, str] = {}
    env: dict[str, str] = {}
    py_files: tuple[Path, ...] = ()
    files: tuple[Path, ...] = ()
    jars: tuple[Path, ...] = ()
    archives: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    directory: Path | None = None


class StateReading(Model):
    """Spark's read of the state of an operator.

    :param operator: Number of the operator.
    :param operator_name: Name recorded by Spark; empty for releases without this record.
    :param store: Name of the store.
    :param kind: Part that is read: ``store``, ``variable`` or ``timers``.
    :param variable: Name of the variable of ``transformWithState``.
    """

    operator: int
    operator_name: str = ""
    store: str
    kind: ReadingKind = "store"
    variable: str = ""
    partitions: int

    @property
    def title(self) -> str:
        """Part that is read, as text: the store, the variable, or the timers."""
        return {"store": self.store, "variable": self.variable, "timers": "timers"}[self.kind]


class ProofRequest(Model):
    """Request to the child.

    :param copy_directory: The copy, absolute; the child may write to it.
    :param original: Path or URI of the copy's source: a script may name it as its checkpoint location.
    :param batch: N.
    :param state_by_id: Whether the checkpoint is of format 2.
    :param query: Name of the query to start; ``None`` for the query with the checkpoint location *original*, else the
        query named like its directory.
    :param application: Application that starts it; ``None`` to start no query.
    :param heap: Heap of the JVM, as ``1g``.
    """

    copy_directory: Path
    original: str
    batch: int
    state_by_id: bool
    readings: tuple[StateReading, ...] = ()
    query: str | None = None
    application: Application | None = None
    scratch: Path
    heap: str
    cores: int = 2
    size: int = 0


class ProofEvent(str, Enum):
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


class ProofMessage(Model):
    """Line of the output.

    :param rows: Rows of the partitions, in their order.
    :param operators: Rows of state of the query's stateful operators, in their order, after the batch.
    :param query: Name of the query that was started.
    :param errors: From the outermost to the cause.
    :param reason: Why the result is unknown.
    """

    event: ProofEvent
    reading: StateReading | None = None
    rows: tuple[int, ...] = ()
    operators: tuple[int, ...] = ()
    query: str = ""
    errors: tuple[SparkError, ...] = ()
    reason: str = ""


# Name of a class, its package left out, or Spark's condition.
_NOT_ABOUT_THE_CHECKPOINT = re.compile(
    r"(OutOfMemory|Interrupted|ClassNotFound|NoClassDefFound|NoSuchMethod|UnsatisfiedLink|UnknownHost|UnresolvedAddress"
    r"|Connect|Connection\w*|\w*Timeout|RpcEndpointNotFound|AccessDenied|NoAuthWithAWS|NoAwsCredentials|UnsupportedFileSystem|Py4J(Network)?|BrokenPipe)"
    r"(Error|Exception)?\Z"
    # What the state data source cannot read in principle: it says nothing about what lies there.
    r"|\ASTDS_|\AUNSUPPORTED_FEATURE|\ACANNOT_OPEN_SOCKET|\ADATA_SOURCE_NOT_FOUND"
)
_ONLY_THE_HOST = re.compile(
    r"No space left on device|Disk quota exceeded|Too many open files|Java heap space|GC overhead limit"
    r"|Cannot allocate memory|Python worker (failed to connect|exited)|Connection refused|Permission denied"
    r"|SparkContext was shut down|Cannot call methods on a stopped SparkContext",
    re.IGNORECASE,
)


def is_refusal(errors: Sequence[SparkError]) -> bool:
    """Return whether these errors, from the outermost to the cause, mean that Spark refuses the checkpoint."""
    return bool(errors) and not any(
        _NOT_ABOUT_THE_CHECKPOINT.search(error.error_class.rpartition(".")[2] if _is_java(error) else error.error_class)
        or _ONLY_THE_HOST.search(error.message)
        for error in errors
    )


def decisive_error(errors: Sequence[SparkError]) -> SparkError:
    """Return the error to show: Spark's innermost condition, else the cause."""
    conditions = [error for error in errors if not _is_java(error) and "UNCATEGORIZED" not in error.error_class]
    return (conditions or list(errors))[-1]


def _is_java(error: SparkError) -> bool:
    """Return whether it has no condition of Spark: those are written in capitals."""
    return error.error_class != error.error_class.upper()


_TIMERS = "TimerState"


def readings(directory: Tree, batch: int) -> tuple[StateReading, ...]:
    """Return the readings of the state after *batch*, in the order of the operators; none without state.

    :param directory: A copy of the closure of the batch.
    :raises CheckpointCorruptError: The metadata of an operator cannot be read.
    """
    if not (directory / STATE).is_directory():
        return ()
    pinned = pinned_partitions(read_offsets(directory, batch))
    return tuple(
        reading for number in StateReader(directory).operators() for reading in _of_operator(directory, number, pinned)
    )


def state_by_id(directory: Tree, batch: int) -> bool:
    """Return whether the state of *batch* is of checkpoint format 2: Spark's conf must say so before the read."""
    return bool(read_commits(directory, batch).state_ids)


def options(reading: StateReading, batch: int) -> dict[str, str]:
    """Return the options of Spark's ``statestore`` data source for a reading."""
    chosen = {"batchId": str(batch), "operatorId": str(reading.operator)}
    if reading.kind == "variable":
        return chosen | {"stateVarName": reading.variable}
    if reading.kind == "timers":
        return chosen | {"readRegisteredTimers": "true"}
    return chosen | {"storeName": reading.store}


def _of_operator(directory: Tree, number: int, pinned: int | None) -> Iterator[StateReading]:
    operator = read_operator(directory, number)
    name, variables, timers = _properties(directory, number)
    partitions = operator.count(pinned)
    for store in operator.stores:
        whole = StateReading(operator=number, operator_name=name, store=store, partitions=partitions)
        parts = [whole.model_copy(update={"kind": "variable", "variable": variable}) for variable in variables]
        parts += [whole.model_copy(update={"kind": "timers"})] if timers else []
        yield from parts or [whole]


def _properties(directory: Tree, number: int) -> tuple[str, list[str], bool]:
    """Return an operator's recorded name, variables of ``transformWithState``, and whether it has timers."""
    path = newest_metadata(directory, number)
    if path is None:
        return "", [], False
    try:
        document: dict[str, Any] = json.loads(read_text(directory, path).partition("\n")[2])
        properties: dict[str, Any] = json.loads(document.get("operatorPropertiesJson") or "{}")
        variables: list[dict[str, Any]] = properties.get("stateVariables") or []
        name = str((document.get("operatorInfo") or {}).get("operatorName", ""))
    except (CheckpointCorruptError, ValueError, AttributeError):
        # Version 1 may be missing or bad, and Spark loads the state all the same; version 2 was relocated before.
        return "", [], False
    kinds = {str(item.get("stateName", "")): item.get("stateVariableType") for item in variables}
    timers = any(kind == _TIMERS for kind in kinds.values())
    return name, [name for name, kind in kinds.items() if kind != _TIMERS], timers
