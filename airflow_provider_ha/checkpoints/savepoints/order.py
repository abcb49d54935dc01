"""Order in which the files of a checkpoint may appear where a directory cannot be renamed into place.

Invariant: the files that Spark reads first come last. Spark does not start from an interrupted copy.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from airflow_provider_ha.checkpoints.format.layout import COMMITS, METADATA, OFFSETS
from airflow_provider_ha.checkpoints.model import Savepoint
from airflow_provider_ha.checkpoints.working.relocation import checked_by


_LAST = (COMMITS, METADATA, OFFSETS)


def stages(savepoint: Savepoint) -> Iterable[list[str]]:
    """Return the names in creation order: state and sources, commits, the query ids, offsets.

    The newest entry of the offset log precedes its predecessor: Spark refuses it alone, under any number.
    """
    names = [f"{query}/{name}" for query, part in savepoint.queries.items() for name in part.files]
    return [list(stage) for _, stage in groupby(sorted(names, key=_stage), key=_stage)]


def _stage(name: str) -> tuple[int, int]:
    _, _, inner = name.partition("/")
    log, _, entry = checked_by(inner).partition("/")
    if log not in _LAST:
        return 0, 0
    return 1 + _LAST.index(log), -int(entry) if log == OFFSETS and entry.isdigit() else 0
