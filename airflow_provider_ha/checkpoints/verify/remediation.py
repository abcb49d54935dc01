"""What each code means to the operator on call: what Spark does, what is lost, what to do.

Invariant: every code has both texts, and the reference page of the codes says the same (held by a test).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_provider_ha.checkpoints.verify.codes import Code


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a code means.

    :param what: What Spark does about it, and what is lost: whole sentences.
    :param next_step: What to do: whole sentences.
    """

    what: str
    next_step: str


_RESTORE = "Restore to the newest batch that the report calls restorable: the batches after it are executed again."
_SAVEPOINT = (
    "Put the file back from a savepoint or a copy of this checkpoint, or restore to the newest restorable batch."
)

MEANINGS: Mapping[Code, Meaning] = {
    Code.EMPTY: Meaning(
        "No batch was ever planned: Spark begins with the first row of its sources.",
        "Nothing, for a new query. If it has run before, the path is wrong or its checkpoint was removed: "
        "look for the right one before the query starts.",
    ),
    Code.NOT_A_CHECKPOINT: Meaning(
        "Nothing in this directory was written by Spark as a checkpoint, so there is nothing to judge.",
        "Name the checkpoint directory of one query: the one that holds offsets and commits.",
    ),
    Code.UNREADABLE: Meaning(
        "The file system gave no answer. That says nothing about the file: it is not called damaged.",
        "Give this user the right to read it, or repair the disk or the mount, and verify again. "
        "Restore nothing and remove nothing because of it.",
    ),
    Code.METADATA_MISSING: Meaning(
        "The query id is gone. Spark 4.2 and later refuses to start. Older releases go on under a new id, and a sink "
        "that knows batches by the query's id (Delta) takes rows twice. State and offsets are not touched.",
        "Put metadata back from a savepoint or a copy of the same query. An id that you make up is a new query.",
    ),
    Code.METADATA_CORRUPT: Meaning(
        "The query id cannot be read, or is no UUID, and Spark fails at once. What follows the id in its file Spark "
        "does not read. State and offsets are not touched.",
        "Put metadata back from a savepoint or a copy of the same query. An id that you make up is a new query.",
    ),
    Code.OFFSETS_CORRUPT: Meaning(
        "What this batch read is not known any more. Spark reads the two newest entries at its start; an older one "
        "matters only for a restore to it. State and output are not touched.",
        _SAVEPOINT,
    ),
    Code.OFFSETS_MISSING: Meaning(
        "Spark reads this entry at its start and refuses to go on without it, although the batch may be committed. "
        "With no entry at all, releases before 4.1 start at batch 0: over the old state, and against the old commits.",
        f"{_SAVEPOINT} An emptied log is no reset: start in a new directory.",
    ),
    Code.OFFSETS_SPARSE: Meaning(
        "Some batches have an entry in neither log, and no state is known: it is read as asynchronous progress "
        "tracking, which records only some batches. Where several runs of batches are left out, that is sure, and "
        "nothing is lost. A single one, right below the newest batch, may as well be an entry that was lost: a query "
        "without that tracking then fails.",
        "Nothing, if the query runs with asyncProgressTrackingEnabled. If it does not, entries were lost and Spark "
        'may refuse with "batch ... doesn\'t exist": restore to a batch whose predecessor is there. `--depth prove` '
        "with the application tells.",
    ),
    Code.CONF_REFUSED: Meaning(
        "This entry of the offset log pins conf of the query, and a value of it is none that this release can read. A "
        "start from that entry fails at once. State and output are not touched.",
        _SAVEPOINT,
    ),
    Code.COMMITS_CORRUPT: Meaning(
        "Whether this batch was committed cannot be read. Spark fails at the newest entry and reads no older one. A "
        "newest entry of which only the version line is left is read as a commit without watermark: with checkpoint "
        "format 1 Spark goes on.",
        f"{_SAVEPOINT} Without the newest entry Spark executes its batch again, and a sink that does not know batches "
        "by their number takes the rows twice.",
    ),
    Code.COMMITS_MISSING: Meaning(
        "The batch is planned and not known to be committed. For the newest one that is what every kill in the "
        "middle of a batch leaves, and Spark executes it again.",
        "Nothing, for the newest batch. An older one cannot be restored to: choose another.",
    ),
    Code.COMMITS_AHEAD: Meaning(
        "A batch is committed that was never planned here: the offset log lost its end, or two checkpoints were "
        "mixed. Spark plans that batch again with other boundaries and dies when it commits it.",
        _RESTORE,
    ),
    Code.COMMITS_BEHIND: Meaning(
        "Batches between the last committed and the last planned one are taken for executed, though no commit says "
        "so. With checkpoint format 2 the ids of their state are lost with their commits, and Spark fails.",
        "Find out which other process writes to this directory: two drivers on one checkpoint leave this. "
        "If Spark cannot start, restore to the newest restorable batch.",
    ),
    Code.FENCED: Meaning(
        "Another driver has taken over and goes on in another directory: the entry that this one needs next is "
        "its record, which no release of Spark parses. It is the fence of storage without renames, and no damage: the "
        "batches before it are what they were.",
        "Nothing, for a directory of an earlier epoch. To start Spark without this package, export a savepoint, and "
        "never this directory.",
    ),
    Code.BASE_CORRUPT: Meaning(
        "The directory names files of earlier epochs in _ha_base, and that file is damaged or of another release. "
        "Without it nothing that was inherited can be found, and nothing of it is guessed.",
        "Restore the job from its latest checkpoint; of another release, use that release.",
    ),
    Code.SOURCE_LOG_CORRUPT: Meaning(
        "Spark does not notice it. Input files that the log no longer names are read again and counted twice, or "
        "new ones are never read.",
        _SAVEPOINT,
    ),
    Code.SOURCE_LOG_MISSING: Meaning(
        "Spark does not always notice it. It may refuse to start, or number new input files as old ones and never "
        "read them.",
        _SAVEPOINT,
    ),
    Code.STATE_MISSING: Meaning(
        "The state after this batch cannot be loaded, and the next batch fails in its tasks. Aggregates, joins and "
        "deduplication since the newest restorable batch exist nowhere else.",
        _RESTORE,
    ),
    Code.STATE_CORRUPT: Meaning(
        "The state after this batch cannot be loaded from this file. Unless the release can go on from an older one, "
        "the next batch fails in its tasks or computes from wrong values.",
        _RESTORE,
    ),
    Code.STATE_METADATA_CORRUPT: Meaning(
        "What Spark recorded about the state beside it is gone or cannot be read: its schema, or the metadata of an "
        "operator. A schema that cannot be read, and metadata that has to name one, keep Spark from using the state. "
        "Other metadata of operators Spark passes over. The state itself is not touched.",
        _SAVEPOINT,
    ),
    Code.STATE_STALE: Meaning(
        "State of an older timeline lies ahead of the logs. A snapshot there, or a zip beside changelogs, is loaded a "
        "few batches later without an error, and every result after that is wrong. Deltas, changelogs, and zips "
        "without changelogs are written over before they are read.",
        "Where it keeps Spark from starting: take a directory that a restore made, or remove every state file above "
        "the version that is named. Do it on a copy.",
    ),
    Code.STATE_FALLBACK: Meaning(
        "A file is bad, and this release loads the same state from an older snapshot and the changes after it. "
        "Nothing is lost. An older release fails.",
        "Repair the disk or the store: the next damage may have no older file behind it. Take a savepoint now.",
    ),
    Code.STATE_UNKNOWN: Meaning(
        "There is no state directory, and with checkpoint format 1 the logs of a query with state look like those of "
        "one without. For a query without state all is well. If the query has a stateful operator (aggregation, "
        "join, deduplication, limit), its state is lost and Spark fails in the first batch.",
        "Ask the query: without a stateful operator there is nothing to do, and `--depth prove` with the application "
        "says so. With one, restore from a savepoint.",
    ),
    Code.CHECKSUM_MISMATCH: Meaning(
        "A checksum does not fit its file, and this release of Spark refuses the file for it. Either may be the "
        "damaged one.",
        f"{_RESTORE} Remove no checksum to get rid of the error before the file was read whole.",
    ),
    Code.CHECKSUM_LEFT: Meaning(
        "An entry of a log was removed and its hidden checksum was not. On a local file system Spark writes that entry "
        'again, cannot give its checksum a name, and the query dies with "Multiple streaming queries are concurrently '
        'using" although no other query is there. The entry itself is written, so nothing is lost, and the next start '
        "goes on; the query stays down until it is started again.",
        "Stop the query, make sure that no other process writes to this directory, and remove the named checksum. "
        "Always remove an entry together with its checksum.",
    ),
    Code.REPARTITION_UNFINISHED: Meaning(
        "An offline repartition planned its batch and did not commit it. Spark 4.2 and later refuses to start until "
        "it is finished; older releases find no state in the new partitions.",
        "Run the repartition again to its end, or restore to the batch before it.",
    ),
    Code.SINK_AHEAD: Meaning(
        "The sink already has the planned batch: a kill between the sink's log and the commit leaves exactly this. "
        "Spark skips such a batch without executing it. A query without state loses nothing. One with state fails "
        "unless the first attempt wrote the state of the batch; then it goes on.",
        "A managed job makes the state of that batch again by itself when it is recovered. Any other: start the "
        "same query once on this checkpoint with format noop and the trigger once, then as ever.",
    ),
    Code.SINK_UNPLANNED: Meaning(
        "The sink has batches that this checkpoint never planned: the checkpoint is older than the output, or "
        "belongs to another one. Spark plans these numbers with new rows and the sink skips them: the rows are lost "
        "without an error, and a query with state fails.",
        "Replay the recorded boundaries of those batches, set their entries of the sink's log aside, or give the "
        "query another output directory: `spark-ha` offers these ways when it plans a restore.",
    ),
    Code.SINK_BEHIND: Meaning(
        "Batches are committed that the sink does not have: their rows are in no reader's result, and Spark never "
        "writes them again. At its next compaction the sink finds the gap in its log and the query dies.",
        "If it is the wrong output directory, name the right one. Otherwise restore to the last batch that the sink "
        "has, so that those after it are executed again.",
    ),
    Code.SINK_LOG_MISSING: Meaning(
        "Readers of the output cannot tell which files belong to it, and Spark dies when it compacts the log. The "
        "output files themselves are not touched.",
        "Put the entry back from a savepoint or a copy of the output's log, or restore into another output directory.",
    ),
    Code.SINK_LOG_CORRUPT: Meaning(
        "Readers of the output fail or miss files, and Spark dies when it compacts the log, or carries the damage "
        "on. The output files themselves are not touched.",
        "Put the entry back from a savepoint or a copy of the output's log, or restore into another output directory.",
    ),
    Code.SINK_FILE_MISSING: Meaning(
        "Rows that were written are gone from the output. Readers fail on the missing file; Spark never writes it "
        "again by itself.",
        "Put the file back from a copy of the output. Otherwise replay its batch from a savepoint that lies before it "
        "into another output directory.",
    ),
    Code.SINK_FILE_SIZE: Meaning(
        "An output file was changed or cut after it was written. Readers get wrong rows or fail; Spark does not "
        "look at it.",
        "Put the file back from a copy of the output. Otherwise replay its batch from a savepoint that lies before it "
        "into another output directory.",
    ),
    Code.NOT_LOOKED_INTO: Meaning(
        "The file is there and not empty, and its content is of a kind that this release of the command does not know: "
        "it is neither called sound nor damaged.",
        "Nothing, when the query runs. Before a restore that matters, start Spark on a copy of the checkpoint.",
    ),
    Code.LOAD_REFUSED: Meaning(
        "Spark was given a copy of this batch and refused to load its state, although every file that it needs is "
        "there and whole by itself: they do not belong together, or this release cannot read them.",
        f"{_RESTORE} Ask for that batch with --depth prove first.",
    ),
    Code.START_REFUSED: Meaning(
        "Spark was given a copy of this batch and the application, and the query failed before it committed a batch "
        "without input: either the application does not fit this state (another schema, other operators, other "
        "sources), or the state is not what it has to be.",
        "Read what Spark says. If the application was changed, start the one that wrote the checkpoint. Otherwise "
        "restore to an older batch, and ask for it with --depth prove first.",
    ),
    Code.NOT_PROVEN: Meaning(
        "Spark was to be asked, and gave no answer: no Java, not enough time, memory or disk, a child that was killed, "
        "a source that did not answer, or a script that never starts the query. "
        "That says nothing about the checkpoint.",
        "Remove what kept Spark from answering (--heap, --deadline, --scratch, --query, --conf), and ask again.",
    ),
}
