"""What one look at a checkpoint is about: handed from check to check, so that nothing is read twice."""

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
    """A checkpoint that is being judged.

    :param directory: The checkpoint.
    :param release: The release that is to start from it.
    :param reader: Finds its state files, and looks into them as deeply as was asked for.
    :param logs: Its logs, read once.
    :param looked_into: What was found in the entries of source logs: one is needed by many batches.
    :param kind: Whether its query keeps state.
    :param refused_conf: What the release refuses of a conf: most entries pin the same one.
    """

    directory: Tree
    release: Release
    reader: StateReader
    logs: Logs
    kind: Statefulness
    looked_into: SourceEntries = field(default_factory=SourceEntries)
    refused_conf: dict[str, list[str]] = field(default_factory=dict)
