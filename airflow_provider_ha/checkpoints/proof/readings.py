"""Reads that make Spark load the whole state of a batch: all operators, stores and partitions.

Invariant: from the copy alone, which has no newer state. A store with column families (``transformWithState``) is
loaded by any of its variables; all are read, as each has separate rows and a separate schema.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from airflow_provider_ha.checkpoints.format.layout import STATE, numbers
from airflow_provider_ha.checkpoints.format.metadata_log import read_commits, read_offsets
from airflow_provider_ha.checkpoints.format.operators import read_operator
from airflow_provider_ha.checkpoints.format.state import StateReader, pinned_partitions
from airflow_provider_ha.checkpoints.proof.request import StateReading
from airflow_provider_ha.checkpoints.trees.files import read_text
from airflow_provider_ha.checkpoints.trees.tree import Tree
from airflow_provider_ha.errors import CheckpointCorruptError


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
    place = f"{STATE}/{number}/_metadata"
    newer = numbers(directory / place / "v2")
    path = f"{place}/v2/{newer[-1]}" if newer else f"{place}/metadata"
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
