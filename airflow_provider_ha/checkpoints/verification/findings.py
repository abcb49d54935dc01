"""What a verification can find. The codes are part of the command's JSON: they are added to, never renamed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Code(str, Enum):
    """One finding, one line each."""

    EMPTY = "EMPTY"  # nothing is there: Spark starts from the beginning
    NOT_A_CHECKPOINT = "NOT_A_CHECKPOINT"  # something is there, but nothing of it belongs to a checkpoint
    UNREADABLE = "UNREADABLE"  # the file system said no: nothing is known about the file
    METADATA_MISSING = "METADATA_MISSING"  # the query id is gone while logs exist
    METADATA_CORRUPT = "METADATA_CORRUPT"  # the query id cannot be read
    OFFSETS_CORRUPT = "OFFSETS_CORRUPT"  # an entry of the offset log cannot be read
    OFFSETS_MISSING = "OFFSETS_MISSING"  # an entry of the offset log is needed and not there
    COMMITS_CORRUPT = "COMMITS_CORRUPT"  # an entry of the commit log cannot be read
    COMMITS_MISSING = "COMMITS_MISSING"  # an entry of the commit log is needed and not there
    COMMITS_AHEAD = "COMMITS_AHEAD"  # a batch is committed that was never planned
    COMMITS_BEHIND = "COMMITS_BEHIND"  # more than one planned batch is not committed
    SOURCE_LOG_CORRUPT = "SOURCE_LOG_CORRUPT"  # an entry of a file source's log cannot be read
    SOURCE_LOG_MISSING = "SOURCE_LOG_MISSING"  # an entry of a file source's log is needed and not there
    STATE_MISSING = "STATE_MISSING"  # a state file is needed and not there
    STATE_CORRUPT = "STATE_CORRUPT"  # a state file is there, but is not what was written
    STATE_METADATA_CORRUPT = "STATE_METADATA_CORRUPT"  # schema or operator metadata is missing or cannot be read
    STATE_STALE = "STATE_STALE"  # state of an older timeline lies ahead of the logs: silently wrong results
    STATE_FALLBACK = "STATE_FALLBACK"  # a file is bad, but this release goes on from an older one
    CHECKSUM_MISMATCH = "CHECKSUM_MISMATCH"  # a checksum file does not fit, and this release looks at it
    CHECKSUM_STALE = "CHECKSUM_STALE"  # a checksum file does not fit, and this release does not look at it
    REPARTITION_UNFINISHED = "REPARTITION_UNFINISHED"  # an offline repartition was begun and not committed


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, or worth knowing.

    :param code: What kind of thing.
    :param path: File or directory, relative to the checkpoint; ``"."`` for the checkpoint itself.
    :param batch: The newest batch that it concerns; ``None`` when it concerns all or none.
    :param message: What was expected and what was found, as one sentence without a final stop.
    """

    code: Code
    path: str
    batch: int | None
    message: str

    def to_json(self) -> dict[str, str | int | None]:
        """The finding as the command prints it."""
        return {"code": self.code.value, "path": self.path, "batch": self.batch, "message": self.message}
