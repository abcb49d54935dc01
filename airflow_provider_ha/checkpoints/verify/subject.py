"""Subject of a verification: passed from check to check, so that every file is read once."""

from __future__ import annotations

from dataclasses import dataclass, field

from airflow_provider_ha.checkpoints.format.releases import Release
from airflow_provider_ha.checkpoints.format.state import StateReader
from airflow_provider_ha.checkpoints.trees.tree import Tree
from airflow_provider_ha.checkpoints.verify.logs import Logs
from airflow_provider_ha.checkpoints.verify.source_entries import SourceEntries
from airflow_provider_ha.checkpoints.verify.statefulness import Statefulness


@dataclass(frozen=True, slots=True)
class Subject:
    """A checkpoint under verification.

    :param directory: The checkpoint.
    :param release: The release that will start from it.
    :param reader: Finds its state files, and reads them to the requested depth.
    :param logs: Its logs, read once.
    :param looked_into: Results for source log entries: many batches need the same entry.
    :param kind: Whether its query keeps state.
    :param refused_conf: Problems of a pinned conf: most entries pin the same one.
    """

    directory: Tree
    release: Release
    reader: StateReader
    logs: Logs
    kind: Statefulness
    looked_into: SourceEntries = field(default_factory=SourceEntries)
    refused_conf: dict[str, list[str]] = field(default_factory=dict)
