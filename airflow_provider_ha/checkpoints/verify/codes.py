"""Codes of verification findings, with the meaning of each: Spark's behaviour, the loss, the remedy.

Invariant: every code has both texts, and they match the reference page of the codes (a test compares them).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class CodeMeaning:
    """Meaning of a code."""

    what: str
    next_step: str


_RESTORE = "Restore to the newest batch that the report calls restorable: the batches after it are executed again."
_SAVEPOINT = (
    "Put the file back from a savepoint or a copy of this checkpoint, or restore to the newest restorable batch."
)

MEANINGS: Mapping[Code, CodeMeaning] = {
    Code.EMPTY: CodeMeaning(
        "The checkpoint has no planned batch: Spark starts with the first row of its sources.",
        "Nothing, for a new query. If it has run before, the path is wrong or its checkpoint was removed: "
        "find the right one before the query starts.",
    ),
    Code.NOT_A_CHECKPOINT: CodeMeaning(
        "This directory contains no files of a Spark checkpoint.",
        "Name the checkpoint directory of a query: it holds offsets and commits.",
    ),
    Code.UNREADABLE: CodeMeaning(
        "The file system gave no answer. The file may still be intact: it is not reported as damaged.",
        "Give this user the right to read it, or repair the disk or the mount, and verify again. Do not restore or "
        "remove files for this reason.",
    ),
    Code.METADATA_MISSING: CodeMeaning(
        "The query id is lost. Spark 4.2 and later refuses to start. Older releases continue under a new id, "
        "and a sink that identifies batches by the query's id (Delta) takes rows twice. State and offsets are "
        "not touched.",
        "Put metadata back from a savepoint or a copy of the same query. An invented id is a new query.",
    ),
    Code.METADATA_CORRUPT: CodeMeaning(
        "The query id cannot be read, or is no UUID, and Spark fails immediately. Spark ignores data behind "
        "the id in this file. State and offsets are not touched.",
        "Put metadata back from a savepoint or a copy of the same query. An invented id is a new query.",
    ),
    Code.OFFSETS_CORRUPT: CodeMeaning(
        "The input of this batch is no longer known. Spark reads the two newest entries at its start; an "
        "older one matters only for a restore to it. State and output are not touched.",
        _SAVEPOINT,
    ),
    Code.OFFSETS_MISSING: CodeMeaning(
        "Spark reads this entry at its start and refuses to continue without it, although the batch may be "
        "committed. With no entry at all, releases before 4.1 start at batch 0: over the old state, and "
        "against the old commits.",
        _SAVEPOINT + " Emptying the log is not a reset: start in a new directory.",
    ),
    Code.OFFSETS_SPARSE: CodeMeaning(
        "Some batches have an entry in neither log, and the query has no known state. The logs are read as "
        "those with asynchronous progress tracking, which records only some batches. With several gaps, that "
        "is certain, and no data is lost. A single gap right below the newest batch may also be a lost entry: "
        "a query without that tracking then fails.",
        (
            "Nothing, if the query runs with asyncProgressTrackingEnabled. If it does not, entries were lost and "
            'Spark may refuse with "batch ... doesn\'t exist": restore to a batch whose predecessor is there. '
            "`--depth prove` with the application decides."
        ),
    ),
    Code.CONF_REFUSED: CodeMeaning(
        "This entry of the offset log pins conf of the query, and this release cannot read one value. A start "
        "from that entry fails immediately. State and output are not touched.",
        _SAVEPOINT,
    ),
    Code.COMMITS_CORRUPT: CodeMeaning(
        "Whether this batch was committed cannot be read. Spark fails at the newest entry and reads no older "
        "one. If only the version line of the newest entry is left, it is read as a commit without watermark: "
        "with checkpoint format 1 Spark continues.",
        _SAVEPOINT
        + (
            " Without the newest entry Spark executes its batch again, and a sink that does not identify batches "
            "by their number takes the rows twice."
        ),
    ),
    Code.COMMITS_MISSING: CodeMeaning(
        "The batch is planned, and its commit is missing. For the newest batch this is the normal result of a "
        "kill in the middle of a batch, and Spark executes it again.",
        "Nothing, for the newest batch. An older one cannot be restored to: choose another.",
    ),
    Code.COMMITS_AHEAD: CodeMeaning(
        "A batch is committed that was never planned here: the offset log lost its end, or two checkpoints "
        "were mixed. Spark plans that batch again with other boundaries and fails at its commit.",
        _RESTORE,
    ),
    Code.COMMITS_BEHIND: CodeMeaning(
        "Spark treats batches between the last committed and the last planned batch as executed, although "
        "their commits are missing. With checkpoint format 2 the ids of their state are lost with their "
        "commits, and Spark fails.",
        "Find out which other process writes to this directory: two drivers on one checkpoint cause this. If "
        "Spark cannot start, restore to the newest restorable batch.",
    ),
    Code.FENCED: CodeMeaning(
        "Another driver has taken over and continues in another directory. Its record occupies the next entry "
        "of this directory, which Spark cannot parse. It is the fence of storage without renames, not damage: "
        "earlier batches are unchanged.",
        "Nothing, for a directory of an earlier epoch. To start Spark without this package, export a "
        "savepoint, never this directory.",
    ),
    Code.BASE_CORRUPT: CodeMeaning(
        "The directory names files of earlier epochs in _ha_base, and that file is damaged or of another "
        "release. Without it the inherited files cannot be found, and the package does not guess them.",
        "Restore the job from its latest checkpoint; of another release, use that release.",
    ),
    Code.SOURCE_LOG_CORRUPT: CodeMeaning(
        "Spark does not notice the damage. Input files that the log no longer names are read again and "
        "counted twice, or new ones are never read.",
        _SAVEPOINT,
    ),
    Code.SOURCE_LOG_MISSING: CodeMeaning(
        "Spark does not always notice it. It may refuse to start, or number new input files as old ones and "
        "never read them.",
        _SAVEPOINT,
    ),
    Code.STATE_MISSING: CodeMeaning(
        "The state after this batch cannot be loaded, and the next batch fails in its tasks. Aggregates, "
        "joins and deduplication since the newest restorable batch exist nowhere else.",
        _RESTORE,
    ),
    Code.STATE_CORRUPT: CodeMeaning(
        "The state after this batch cannot be loaded from this file. Unless the release can continue from an "
        "older file, the next batch fails in its tasks or computes from wrong values.",
        _RESTORE,
    ),
    Code.STATE_METADATA_CORRUPT: CodeMeaning(
        "Spark's records about the state, its schema or the metadata of an operator, are missing or "
        "unreadable. Spark cannot use state with an unreadable schema, or without the metadata that names the "
        "schema. It ignores other metadata of operators. The state itself is not touched.",
        _SAVEPOINT,
    ),
    Code.STATE_STALE: CodeMeaning(
        "State of an older timeline is ahead of the logs. Such a snapshot, or a zip in addition to "
        "changelogs, is loaded a few batches later without an error, and every result after that is wrong. "
        "Deltas, changelogs, and zips without changelogs are overwritten before they are read.",
        "If it prevents a start of Spark: use a directory that a restore created, or remove every state file "
        "above the named version. Work on a copy.",
    ),
    Code.STATE_FALLBACK: CodeMeaning(
        "A file is bad, and this release loads the same state from an older snapshot and the changes after "
        "it. Nothing is lost. An older release fails.",
        "Repair the disk or the store: the next damage may leave no older file to load. Take a savepoint now.",
    ),
    Code.STATE_UNKNOWN: CodeMeaning(
        "The state directory is missing, and with checkpoint format 1 the logs of queries with and without "
        "state look the same. A query without state is not affected. If the query has a stateful operator "
        "(aggregation, join, deduplication, limit), its state is lost and Spark fails in the first batch.",
        "Check the query, or use `--depth prove` with the application. Without a stateful operator, no action "
        "is needed. With a stateful operator, restore from a savepoint.",
    ),
    Code.CHECKSUM_MISMATCH: CodeMeaning(
        "A checksum does not fit its file, and this release of Spark therefore refuses the file. Either of "
        "the two may be damaged.",
        _RESTORE + " Do not remove a checksum to avoid the error before the file was read completely.",
    ),
    Code.CHECKSUM_LEFT: CodeMeaning(
        (
            "An entry of a log was removed without its hidden checksum. On a local file system Spark writes that "
            'entry again, cannot rename its checksum, and the query fails with "Multiple streaming queries are '
            'concurrently using" although it is the only query. The entry itself is written, so no data is lost, '
            "and the next start continues; the query stays down until it is started again."
        ),
        "Stop the query, check that no other process writes to this directory, and remove the named checksum. Always "
        "remove an entry together with its checksum.",
    ),
    Code.REPARTITION_UNFINISHED: CodeMeaning(
        "An offline repartition planned its batch and did not commit it. Spark 4.2 and later refuses to start "
        "until it is finished; older releases find no state in the new partitions.",
        "Run the repartition again to its end, or restore to the batch before it.",
    ),
    Code.SINK_AHEAD: CodeMeaning(
        "The sink already has the planned batch: a kill between the sink's log and the commit leaves exactly "
        "this. Spark skips such a batch without executing it. A query without state loses no data. A query "
        "with state fails, unless the first attempt wrote the state of the batch; then it continues.",
        "The recovery of a managed job recreates the state of the batch. For any other query: start it once "
        "on this checkpoint with format noop and the trigger once, then normally.",
    ),
    Code.SINK_UNPLANNED: CodeMeaning(
        "The sink has batches that this checkpoint never planned: the checkpoint is older than the output, or "
        "belongs to another one. Spark plans these numbers with new rows and the sink skips them: the rows "
        "are lost without an error, and a query with state fails.",
        "Replay the recorded boundaries of these batches, set their entries of the sink's log aside, or give "
        "the query another output directory: `spark-ha` offers these ways when it plans a restore.",
    ),
    Code.SINK_BEHIND: CodeMeaning(
        "Batches are committed that the sink does not have: their rows are in no reader's result, and Spark "
        "never writes them again. At its next compaction the sink finds the gap in its log and the query "
        "fails.",
        "If it is the wrong output directory, name the right one. Otherwise restore to the last batch that "
        "the sink has, so that the later batches are executed again.",
    ),
    Code.SINK_LOG_MISSING: CodeMeaning(
        "Readers of the output cannot determine its files, and Spark fails when it compacts the log. The "
        "output files themselves are not touched.",
        "Put the entry back from a savepoint or a copy of the output's log, or restore into another output directory.",
    ),
    Code.SINK_LOG_CORRUPT: CodeMeaning(
        "Readers of the output fail or miss files, and Spark fails when it compacts the log, or copies the "
        "damage. The output files themselves are not touched.",
        "Put the entry back from a savepoint or a copy of the output's log, or restore into another output directory.",
    ),
    Code.SINK_FILE_MISSING: CodeMeaning(
        "Written rows are missing from the output. Readers fail on the missing file; Spark never writes it again.",
        "Put the file back from a copy of the output. Otherwise replay its batch from an earlier savepoint "
        "into another output directory.",
    ),
    Code.SINK_FILE_SIZE: CodeMeaning(
        "An output file was changed or cut after it was written. Readers receive wrong rows or fail; Spark does not "
        "check it.",
        "Put the file back from a copy of the output. Otherwise replay its batch from an earlier savepoint "
        "into another output directory.",
    ),
    Code.NOT_LOOKED_INTO: CodeMeaning(
        "The file is there and not empty, and this release of the command does not know the kind of its "
        "content: it is reported neither as sound nor as damaged.",
        "Nothing, when the query runs. Before a restore that matters, start Spark on a copy of the checkpoint.",
    ),
    Code.LOAD_REFUSED: CodeMeaning(
        "Spark was given a copy of this batch and refused to load its state, although every needed file "
        "exists and is complete: the files do not belong together, or this release cannot read them.",
        _RESTORE + " Check that batch with --depth prove first.",
    ),
    Code.START_REFUSED: CodeMeaning(
        "Spark was given a copy of this batch and the application, and the query failed before it committed a "
        "batch without input: either the application does not fit this state (another schema, other "
        "operators, other sources), or the state is wrong.",
        "Read Spark's message. If the application was changed, start the version that wrote the checkpoint. "
        "Otherwise restore to an older batch, and check it with --depth prove first.",
    ),
    Code.NOT_PROVEN: CodeMeaning(
        "The check with Spark has no result: no Java, not enough time, memory or disk, a killed child "
        "process, a source that did not answer, or a script that never starts the query. The checkpoint may "
        "still be intact.",
        "Remove the obstacle (--heap, --deadline, --scratch, --query, --conf), and check again.",
    ),
}
