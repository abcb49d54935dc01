"""Sinks that the contract of sink connectors runs on: each makes outputs, and writes as its own writer would."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from airflow_provider_ha.checkpoints.connectors.file_sink_log import LOG
from airflow_provider_ha.checkpoints.connectors.sink_connector import SinkConnector
from airflow_provider_ha.checkpoints.connectors.sinks import sink_connector
from airflow_provider_ha.checkpoints.model import QuerySink, SinkKind


class Output(Protocol):
    """One output, and what only a test does with it."""

    sink: QuerySink

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
        self._log = directory / LOG

    def write(self, batch: int, content: str = "") -> None:
        """Write an entry, with its hidden checksum."""
        self._log.mkdir(parents=True, exist_ok=True)
        name = f"{batch}.compact" if batch % 10 == 9 else str(batch)
        (self._log / name).write_text(f'v1\n{{"path":"{batch}{content}"}}')
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


OUTPUTS: dict[str, Callable[[Path], Output]] = {"file": FileOutput}
"""Name -> makes an output that has nothing yet. A sink joins the contract with a line here."""


def connect(output: Output) -> SinkConnector:
    """Return the connector that the registry has for an output."""
    connector = sink_connector(output.sink)
    assert connector is not None
    return connector


def keep(output: Output, batch: int, kept: Path) -> Path:
    """Keep the record of an output as a pin does; returns *kept*."""
    for source, name in connect(output).closure(batch):
        (kept / name).parent.mkdir(parents=True, exist_ok=True)
        (kept / name).write_bytes(source.read_bytes())
    return kept
