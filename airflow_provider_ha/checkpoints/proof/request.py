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
    """A script that starts the query, and what it needs.

    :param script: A PySpark script, absolute.
    :param arguments: Its arguments, without its name.
    :param conf: Spark's conf. Master, addresses and temporary directories are always those of the proof.
    :param env: Environment of the script, over that of the host.
    :param archives: Items of ``spark.archives``.
    :param directory: Its working directory, absolute; that of the script by default.
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
    """One look of Spark into the state of one operator.

    :param operator: Its id.
    :param operator_name: As Spark recorded it; empty for releases that record nothing.
    :param store: Name of the store.
    :param kind: What of it is read.
    :param variable: Name of the variable of ``transformWithState``.
    :param partitions: How many partitions have to answer.
    """

    operator: int
    operator_name: str = ""
    store: str
    kind: Kind = "store"
    variable: str = ""
    partitions: int

    @property
    def title(self) -> str:
        """What is read, as text: the store, the variable, or the timers."""
        return {"store": self.store, "variable": self.variable, "timers": "timers"}[self.kind]


class ProofRequest(Model):
    """The request to the child.

    :param copy_directory: The copy, absolute; the child may write to it.
    :param original: Path or URI that the copy was made from: a script may name it as its checkpoint location.
    :param batch: N.
    :param state_by_id: Whether the checkpoint is of format 2.
    :param readings: What to load.
    :param query: Name of the query to start; ``None`` for the one whose checkpoint location is *original*, else the one
        that is named as its directory.
    :param application: What starts it; ``None`` when nothing is to be started.
    :param scratch: Spark's temporary files.
    :param heap: Of the JVM, as ``1g``.
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
