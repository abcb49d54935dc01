"""How much of a checkpoint is held in memory at once: a damaged or hostile directory costs no more than that.

State is read in pieces and is not bounded here.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from airflow_provider_ha.errors import CheckpointCorruptError


LARGEST = 256 << 20
"""Bytes of an entry of a log, of metadata, of a schema. Spark writes kilobytes."""

LARGEST_COMPACT = 1 << 30
"""Bytes of a compact entry. It names every file that a source has read or a sink has written: about 5 million here."""

NAMES = 1_000_000
"""Names in one directory, and the objects below a prefix."""

_COMPACT = ".compact"


def check_size(name: str, size: int) -> None:
    """Refuse a file that is larger than what Spark writes under its name.

    :param size: Bytes.
    :raises CheckpointCorruptError: It is.
    """
    limit = LARGEST_COMPACT if name.endswith(_COMPACT) else LARGEST
    if size > limit:
        raise CheckpointCorruptError(name, f"it has {size:,} bytes, {limit:,} is the most that is read of such a file")


def first_names(found: Iterable[str]) -> list[str] | None:
    """Return all names; ``None`` when there are more than :data:`NAMES`."""
    names = list(islice(found, NAMES + 1))
    return names if len(names) <= NAMES else None
