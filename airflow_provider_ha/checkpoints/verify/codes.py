"""The codes of what a verification can find: part of the command's JSON, so they are added to, never renamed."""

from __future__ import annotations

from enum import Enum


class Code(str, Enum):
    """One finding, one line each; what each means is in ``meanings``."""

    EMPTY = "EMPTY"  # nothing is there: Spark starts from the beginning
    NOT_A_CHECKPOINT = "NOT_A_CHECKPOINT"  # something is there, but nothing of it belongs to a checkpoint
    UNREADABLE = "UNREADABLE"  # the file system said no: nothing is known about the file
    METADATA_MISSING = "METADATA_MISSING"  # the query id is gone while logs exist
    METADATA_CORRUPT = "METADATA_CORRUPT"  # the query id cannot be read
    OFFSETS_CORRUPT = "OFFSETS_CORRUPT"  # an entry of the offset log cannot be read
    OFFSETS_MISSING = "OFFSETS_MISSING"  # an entry of the offset log is needed and not there
    OFFSETS_SPARSE = "OFFSETS_SPARSE"  # batches without any entry: legal where progress is tracked asynchronously
    CONF_REFUSED = "CONF_REFUSED"  # an entry of the offset log pins conf that this release cannot read
    COMMITS_CORRUPT = "COMMITS_CORRUPT"  # an entry of the commit log cannot be read
    COMMITS_MISSING = "COMMITS_MISSING"  # an entry of the commit log is needed and not there
    COMMITS_AHEAD = "COMMITS_AHEAD"  # a batch is committed that was never planned
    COMMITS_BEHIND = "COMMITS_BEHIND"  # more than one planned batch is not committed
    FENCED = "FENCED"  # a takeover has ended this directory: the batches before it are whole
    BASE_CORRUPT = "BASE_CORRUPT"  # the names of what the directory inherits cannot be read
    SOURCE_LOG_CORRUPT = "SOURCE_LOG_CORRUPT"  # an entry of a file source's log cannot be read
    SOURCE_LOG_MISSING = "SOURCE_LOG_MISSING"  # an entry of a file source's log is needed and not there
    STATE_MISSING = "STATE_MISSING"  # a state file is needed and not there
    STATE_CORRUPT = "STATE_CORRUPT"  # a state file is there, but is not what was written
    STATE_METADATA_CORRUPT = "STATE_METADATA_CORRUPT"  # schema or operator metadata is missing or cannot be read
    STATE_STALE = "STATE_STALE"  # state of an older timeline lies ahead of the logs: silently wrong results
    STATE_FALLBACK = "STATE_FALLBACK"  # a file is bad, but this release goes on from an older one
    STATE_UNKNOWN = "STATE_UNKNOWN"  # there is no state, and the logs do not tell whether there was any
    CHECKSUM_MISMATCH = "CHECKSUM_MISMATCH"  # a checksum file does not fit, and this release looks at it
    CHECKSUM_LEFT = "CHECKSUM_LEFT"  # a checksum lies where Spark will write that of an entry it has not come to
    REPARTITION_UNFINISHED = "REPARTITION_UNFINISHED"  # an offline repartition was begun and not committed
    SINK_AHEAD = "SINK_AHEAD"  # the file sink has the planned batch that is not committed
    SINK_UNPLANNED = "SINK_UNPLANNED"  # the file sink has batches that were never planned in this checkpoint
    SINK_BEHIND = "SINK_BEHIND"  # the file sink does not have batches that are committed
    SINK_LOG_MISSING = "SINK_LOG_MISSING"  # an entry of the file sink's log is needed and not there
    SINK_LOG_CORRUPT = "SINK_LOG_CORRUPT"  # an entry of the file sink's log cannot be read
    SINK_FILE_MISSING = "SINK_FILE_MISSING"  # an output file that the log names is not there
    SINK_FILE_SIZE = "SINK_FILE_SIZE"  # an output file has another size than the log says
    NOT_LOOKED_INTO = "NOT_LOOKED_INTO"  # a file is there, and of a kind whose content cannot be judged here
    LOAD_REFUSED = "LOAD_REFUSED"  # Spark itself was given a copy, and refused to load its state
    START_REFUSED = "START_REFUSED"  # Spark itself was given a copy, and the query failed in its next batch
    NOT_PROVEN = "NOT_PROVEN"  # Spark itself was asked, and gave no answer
