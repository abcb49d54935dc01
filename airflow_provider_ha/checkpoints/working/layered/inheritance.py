"""Selection of the files that a takeover inherits from a fenced query directory: a filtered listing and one log entry.

Invariant: files that the old driver planned or wrote beyond the cut are omitted, even if written later: log entries
above L and C, source log entries above the offset of L, state above the version that C wrote. State of format 1 is
loaded by its number alone, so a named file is a file that Spark reads. Naming too many older files is harmless: Spark
removes no file here. Files that are known to be unneeded are omitted (``needs_record``).

No base names files with absolute paths: they are rewritten for their new place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_provider_ha.checkpoints.format.closure import source_log
from airflow_provider_ha.checkpoints.format.compactible_log import COMPACT
from airflow_provider_ha.checkpoints.format.layout import COMMITS, METADATA, OFFSETS, SOURCES, STATE
from airflow_provider_ha.checkpoints.format.metadata_log import read_offsets
from airflow_provider_ha.checkpoints.trees.tree import Tree
from airflow_provider_ha.checkpoints.working.relocation import checked_by, is_relocated


VERSION_FILE = re.compile(r"([0-9]+)(_[^.]+)?\.(zip|changelog|delta|snapshot)")
"""Name of a file with a single version of a state."""
_WRITTEN_AT = re.compile(r"([0-9]+)(_.*)?")
_IN_STATE = 2  # state/<operator>/...


@dataclass(frozen=True, slots=True)
class Cut:
    """The inherited part of a query directory.

    :param planned: L; -1 for no batch.
    :param committed: C; -1 for no batch.
    :param logged: Directory of a source's log, as ``sources/0`` -> the highest entry of the cut.
    """

    planned: int
    committed: int
    logged: Mapping[str, int] = field(default_factory=dict)


def cut_of(directory: Tree, planned: int, committed: int) -> Cut:
    """Return the cut of a fenced query directory.

    :raises CheckpointCorruptError: The entry of its last planned batch is damaged or missing.
    :raises StorageUnavailableError: It could not be read.
    """
    if planned < 0:
        return Cut(planned, committed)
    offsets = read_offsets(directory, planned)
    ends = ((source_log(directory, offsets, at), offsets.log_offset(at)) for at in range(len(offsets.offsets)))
    return Cut(planned, committed, {place: end for place, end in ends if end is not None})


def belongs(name: str, cut: Cut) -> bool:
    """Whether a file of a query directory is inherited at a cut. Pure.

    :param name: Relative to the query directory.
    """
    parts = checked_by(name).split("/")
    if any(part.startswith((".", "_ha_")) for part in name.split("/")):
        return False
    if parts[0] == METADATA:
        return len(parts) == 1
    if parts[0] in (OFFSETS, COMMITS):
        # guard: bases-name-later-batches
        return _number(parts[-1]) <= (cut.planned if parts[0] == OFFSETS else cut.committed)
    if parts[0] == SOURCES:
        return cut.planned >= 0 and _in_source_log(parts, cut)
    return parts[0] == STATE and cut.committed >= 0 and _in_state(parts, checked_by(name), cut.committed)


def is_own(name: str) -> bool:
    """Whether a file must be rewritten for its new place, and is inherited by no base."""
    return is_relocated(checked_by(name))


def _in_source_log(parts: list[str], cut: Cut) -> bool:
    last = cut.logged.get("/".join(parts[:-1]))
    number = _number(parts[-1].removesuffix(COMPACT))
    return last is None or number <= last


def _in_state(parts: list[str], path: str, committed: int) -> bool:
    if is_relocated(path) or "_stateSchema" in parts[_IN_STATE:]:
        written = _WRITTEN_AT.fullmatch(parts[-1])
        return written is None or int(written[1]) <= committed
    version = VERSION_FILE.fullmatch(parts[-1])
    return version is None or int(version[1]) <= committed + 1


def _number(text: str) -> float:
    """Return the number of an entry; infinite for other names, which belong to no cut."""
    return int(text) if text.isascii() and text.isdigit() else float("inf")
