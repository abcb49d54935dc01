"""Codes of verification findings: part of the command's JSON, so codes are added but never renamed."""

from __future__ import annotations

from enum import Enum


class Code(str, Enum):
    """One finding per member; ``meanings`` explains each code."""

    EMPTY = "EMPTY"  # the directory is empty: Spark starts from the beginning
    NOT_A_CHECKPOINT = "NOT_A_CHECKPOINT"  # the directory has files, but none belongs to a checkpoint
    UNREADABLE = "UNREADABLE"  # the file system refused the read: the state of the file is unknown
    METADATA_MISSING = "METADATA_MISSING"  # the query id is missing while logs exist
    METADATA_CORRUPT = "METADATA_CORRUPT"  # the query id cannot be read
    OFFSETS_CORRUPT = "OFFSETS_CORRUPT"  # an entry of the offset log cannot be read
    OFFSETS_MISSING = "OFFSETS_MISSING"  # a required entry of the offset log is missing
    OFFSETS_SPARSE = "OFFSETS_SPARSE"  # batches without any entry: legal with asynchronous progress tracking
    CONF_REFUSED = "CONF_REFUSED"  # an entry of the offset log pins conf that this release cannot read
    COMMITS_CORRUPT = "COMMITS_CORRUPT"  # an entry of the commit log cannot be read
    COMMITS_MISSING = "COMMITS_MISSING"  # a required entry of the commit log is missing
    COMMITS_AHEAD = "COMMITS_AHEAD"  # a batch is committed that was never planned
    COMMITS_BEHIND = "COMMITS_BEHIND"  # more than one planned batch is not committed
    FENCED = "FENCED"  # a takeover has ended this directory: earlier batches are complete
    BASE_CORRUPT = "BASE_CORRUPT"  # the names of the inherited files cannot be read
    SOURCE_LOG_CORRUPT = "SOURCE_LOG_CORRUPT"  # an entry of a file source's log cannot be read
    SOURCE_LOG_MISSING = "SOURCE_LOG_MISSING"  # a required entry of a file source's log is missing
    STATE_MISSING = "STATE_MISSING"  # a required state file is missing
    STATE_CORRUPT = "STATE_CORRUPT"  # the content of a state file is damaged
    STATE_METADATA_CORRUPT = "STATE_METADATA_CORRUPT"  # schema or operator metadata is missing or cannot be read
    STATE_STALE = "STATE_STALE"  # state of an older timeline is ahead of the logs: silently wrong results
    STATE_FALLBACK = "STATE_FALLBACK"  # a file is bad, but this release continues from an older one
    STATE_UNKNOWN = "STATE_UNKNOWN"  # there is no state, and the logs do not show whether there was any
    CHECKSUM_MISMATCH = "CHECKSUM_MISMATCH"  # a checksum file does not match, and this release checks it
    CHECKSUM_LEFT = "CHECKSUM_LEFT"  # a checksum blocks the name that Spark will give to the checksum of a future entry
    REPARTITION_UNFINISHED = "REPARTITION_UNFINISHED"  # an offline repartition was begun and not committed
    SINK_AHEAD = "SINK_AHEAD"  # the file sink has the planned but uncommitted batch
    SINK_UNPLANNED = "SINK_UNPLANNED"  # the file sink has batches that this checkpoint never planned
    SINK_BEHIND = "SINK_BEHIND"  # the file sink lacks committed batches
    SINK_LOG_MISSING = "SINK_LOG_MISSING"  # a required entry of the file sink's log is missing
    SINK_LOG_CORRUPT = "SINK_LOG_CORRUPT"  # an entry of the file sink's log cannot be read
    SINK_FILE_MISSING = "SINK_FILE_MISSING"  # an output file that the log names is missing
    SINK_FILE_SIZE = "SINK_FILE_SIZE"  # the size of an output file differs from the log
    NOT_LOOKED_INTO = "NOT_LOOKED_INTO"  # the file exists, but the command cannot check this kind of content
    LOAD_REFUSED = "LOAD_REFUSED"  # Spark refused to load the state from a copy
    START_REFUSED = "START_REFUSED"  # the query failed in its next batch on a copy
    NOT_PROVEN = "NOT_PROVEN"  # the check with Spark gave no answer
