"""Sinks that the contract of sink connectors runs on: each makes outputs, and writes as its own writer would."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from airflow_provider_ha.checkpoints.model import QuerySink, SinkKind
from airflow_provider_ha.checkpoints.sinks.file_sink_log import LOG, log_files
from airflow_provider_ha.checkpoints.sinks.sink_registry import sink_connector
from airflow_provider_ha.checkpoints.sinks.sink_type import SinkConnector
from airflow_provider_ha.checkpoints.spark.files import read
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.spark.places import StorageAccess
from tests.support.hdfs.hdfs_server import Hdfs
from tests.support.s3.s3_server import S3Access


class Output(Protocol):
    """One output, and what only a test does with it."""

    sink: QuerySink
    reach: StorageAccess

    def write(self, batch: int, content: str = "") -> None:
        """Give it a batch, as the writer of its kind does. Batches are written in order."""

    def remove(self) -> None:
        """Remove it with all that it has."""

    def record(self, kept: Path) -> Path:
        """Return what ``seed`` is given, of a record that was kept below *kept*."""


class FileOutput:
    """An output directory of Spark's file sink; every tenth entry is compact."""

    def __init__(self, directory: Path) -> None:
        self.sink = QuerySink(kind=SinkKind.FILE, format="json", path=str(directory))
        self.reach = StorageAccess()
        self._log = directory / LOG

    def write(self, batch: int, content: str = "") -> None:
        """Write an entry, with its hidden checksum."""
        self._log.mkdir(parents=True, exist_ok=True)
        name = f"{batch}.compact" if batch % 10 == 9 else str(batch)
        (self._log / name).write_text(f'v1\n{{"path":"{batch}{content}","size":1}}')
        (self._log / f".{name}.crc").write_bytes(b"crc")

    def remove(self) -> None:
        """Remove the log and its directory."""
        for path in self._log.iterdir():
            path.unlink()
        self._log.rmdir()
        self._log.parent.rmdir()

    def record(self, kept: Path) -> Path:
        """Return the kept log."""
        return kept / LOG


class StoredOutput:
    """The same below a prefix of a bucket, or on HDFS."""

    def __init__(self, uri: str, reach: StorageAccess) -> None:
        self.sink = QuerySink(kind=SinkKind.FILE, format="json", path=uri)
        self.reach = reach
        self.files = reach.files(uri)

    def write(self, batch: int, content: str = "") -> None:
        """Write an entry."""
        name = f"{batch}.compact" if batch % 10 == 9 else str(batch)
        self.files.create(f"{LOG}/{name}", f'v1\n{{"path":"{batch}{content}","size":1}}'.encode())

    def remove(self) -> None:
        """Remove the log."""
        for file in list(self.files.list("")):
            self.files.delete(file.key)

    def record(self, kept: Path) -> Path:
        """Return the kept log."""
        return kept / LOG


@dataclass(frozen=True)
class Servers:
    """What starts the servers that an output needs."""

    s3: Callable[[], S3Access]
    hdfs: Callable[[], Hdfs]


Make = Callable[[str], Output]
"""Makes an output of a name that has nothing yet."""
OUTPUTS: dict[str, Callable[[Path, Servers], Make]] = {
    "file": lambda place, _: lambda name: FileOutput(place / name),
    "file on s3": lambda _, servers: _in_a_bucket(servers.s3()),
    "file on hdfs": lambda _, servers: _on_hdfs(servers.hdfs()),
}
"""Name -> makes what makes outputs, in a directory or on a server. A sink joins the contract with a line here."""


def _in_a_bucket(s3: S3Access) -> Make:
    bucket = s3.new_bucket()
    return lambda name: StoredOutput(f"s3://{bucket}/{name}", StorageAccess(s3.options()))


def _on_hdfs(hdfs: Hdfs) -> Make:
    root = hdfs.new_root()
    return lambda name: StoredOutput(f"{root}/{name}", StorageAccess(hdfs=hdfs.options()))


def connect(output: Output) -> SinkConnector:
    """Return the connector that the registry has for an output."""
    connector = sink_connector(output.sink, output.reach)
    assert connector is not None
    return connector


def keep(output: Output, batch: int, kept: Path) -> Path:
    """Keep the record of an output as a pin does; returns *kept*."""
    connector = connect(output)
    place = LocalTree(kept / output.record(Path()))
    for name in log_files(connector.record(), batch):
        place.write(name, read(connector.record(), name))
    return kept
