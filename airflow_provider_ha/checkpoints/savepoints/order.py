"""The order in which the files of a checkpoint may appear where a directory cannot get its name in one step.

Invariant: what Spark looks for first comes last. What ends before that is nothing that Spark would start from.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from airflow_provider_ha.checkpoints.format.layout import COMMITS, METADATA, OFFSETS
from airflow_provider_ha.checkpoints.model import Savepoint
from airflow_provider_ha.checkpoints.working.relocation import checked_by


_LAST = (COMMITS, METADATA, OFFSETS)


def stages(savepoint: Savepoint) -> Iterable[list[str]]:
    """Return the names in the order in which they may appear: state and sources, commits, the query ids, offsets.

    The newest entry of the offset log comes before the one that it follows: alone it is refused, with any number.
    """
    names = [f"{query}/{name}" for query, part in savepoint.queries.items() for name in part.files]
    return [list(stage) for _, stage in groupby(sorted(names, key=_stage), key=_stage)]


def _stage(name: str) -> tuple[int, int]:
    _, _, inner = name.partition("/")
    log, _, entry = checked_by(inner).partition("/")
    if log not in _LAST:
        return 0, 0
    return 1 + _LAST.index(log), -int(entry) if log == OFFSETS and entry.isdigit() else 0
