"""The request to the child that runs Spark: which copy, which state to read, which application to start.

It travels in a file that only its owner can read: conf, arguments and paths of an application may hold secrets.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from airflow_provider_ha.records import Model


# stateStore: a store by its name; variable: one of transformWithState; timers: its registered timers.
Kind = Literal["store", "variable", "timers"]


class Application(Model):
    """Script that starts the query, with its environment.

    :param script: A PySpark script, absolute.
    :param arguments: Its arguments, without its name.
    :param conf: Spark's conf. The proof always sets master, addresses and temporary directories.
    :param env: Environment of the script, over that of the host.
    :param archives: Items of ``spark.archives``.
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

    :param operator: Its id.
    :param operator_name: Name recorded by Spark; empty for releases without this record.
    :param store: Name of the store.
    :param kind: Part that is read.
    :param variable: Name of the variable of ``transformWithState``.
    :param partitions: Number of expected partitions.
    """

    operator: int
    operator_name: str = ""
    store: str
    kind: Kind = "store"
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
    :param readings: State to load.
    :param query: Name of the query to start; ``None`` for the query with the checkpoint location *original*, else the
        query named like its directory.
    :param application: Application that starts it; ``None`` to start no query.
    :param scratch: Spark's temporary files.
    :param heap: Heap of the JVM, as ``1g``.
    :param cores: Threads of Spark.
    :param size: Bytes of the copy.
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
