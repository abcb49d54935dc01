"""Records of checkpoints and savepoints (design, sections 1 and 5).

``N`` is the last committed batch of a cut, ``L`` the highest planned one; -1 without one.
"""

from __future__ import annotations

from datetime import datetime
from enum import Enum
from typing import Annotated, ClassVar

from pydantic import AfterValidator

from airflow_provider_ha.checkpoints.ownership import AdoptedCheckpoint
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.records import Model, Record


def _segment(name: str) -> str:
    if not name or "/" in name or name in {".", ".."}:
        raise ConfigurationError(f"{name!r} is not the name of a file or directory")
    return name


# Names that become paths are checked with the record: wherever it was found, it leads out of no directory.
Segment = Annotated[str, AfterValidator(_segment)]


class BatchEntry(Model):
    """Spark's record of a batch: enough to execute exactly this batch again.

    :param batch: Id of the batch.
    :param offsets: Content of ``offsets/<batch>``.
    :param commits: Content of ``commits/<batch>``; ``None`` until it is committed.
    :param sources: The file source's log lines of this batch, in order, by source directory (``"0"``).
    :param log_offsets: Last ``logOffset`` of this batch, by source directory.
    :param lengths: Source directory -> length in bytes of the file on each line, ``None`` if unknown. Spark does not
        record it: the driver reads it from the file system.
    """

    batch: int
    offsets: str
    commits: str | None = None
    sources: dict[Segment, tuple[str, ...]] = {}
    log_offsets: dict[Segment, int] = {}
    lengths: dict[Segment, tuple[int | None, ...]] = {}

    def measured_as(self, other: BatchEntry | None) -> BatchEntry:
        """Return the entry with the lengths of another record of the same batch, unless it has lengths."""
        same = other is not None and not self.lengths and (other.offsets, other.sources) == (self.offsets, self.sources)
        return self.model_copy(update={"lengths": other.lengths}) if other is not None and same else self


class SinkKind(str, Enum):
    """Behaviour of a sink for a batch id that it has already seen."""

    FILE = "file"  # skips it without executing the plan (_spark_metadata)
    FOREACH_BATCH = "foreach_batch"  # executes it again
    OTHER = "other"


class QuerySink(Model):
    """Sink of a query.

    :param kind: Behaviour for a batch that it already has: ``file``, ``foreach_batch`` or ``other``.
    :param format: Format named by the script.
    :param path: Directory of a file sink, absolute.
    :param max_batch: Highest batch in the log of the file sink or table; -1 without one.
    :param table: Directory of a table that remembers query id and batch (Delta, Iceberg), absolute.
    :param unplanned: Whether rows reach it before the boundaries of their batch are written: real-time and continuous
        mode.
    :param repeatable: Whether a repeated batch is declared to leave the output unchanged: by the script's ``fenced``;
        in a plan also by the options of the job.
    """

    kind: SinkKind
    format: str | None = None
    path: str | None = None
    max_batch: int = -1
    table: str | None = None
    unplanned: bool = False
    repeatable: bool = False


class QuerySources(Model):
    """Sources of a query, as far as its offsets do not contain them.

    :param tables: Absolute directory of the Delta or Iceberg table read, by source.
    :param brokers: ``host:port,host:port`` of its topics, as named by the script; empty for zero or several clusters.
    :param topics: Topic ids at the start of the run's read, by topic.
    :param tolerant: Sources that continue after lost rows (``failOnDataLoss`` is false).
    """

    tables: dict[str, str] = {}
    brokers: str = ""
    topics: dict[str, str] = {}
    tolerant: tuple[str, ...] = ()


class QueryCut(Model):
    """One query's part of a cut.

    :param batch: N.
    :param sink: State of its sink at that time.
    :param entries: The batches that were recorded since the previous checkpoint (all up to L, ascending).
    :param files: Sizes of the closure's files by relative path.
    :param sources: The sources that it reads.
    """

    batch: int
    sink: QuerySink
    entries: tuple[BatchEntry, ...] = ()
    files: dict[str, int] = {}
    sources: QuerySources = QuerySources()


class CheckpointKind(str, Enum):
    """Why a checkpoint was taken."""

    PERIODIC = "periodic"
    STOP = "stop"  # sharp: nothing in flight, nothing to replay


class Checkpoint(Record):
    """Payload of a checkpoint: a job-wide cut, all from one epoch. Self-describing: ZooKeeper can be rebuilt from it.

    :param number: Its number; never repeats within a job.
    :param run: Run that took it.
    :param epoch: Epoch that took it.
    :param reason: Why it was taken: ``periodic`` or ``stop``.
    :param queries: Query -> its part of the cut.
    :param directory: Key of the working directory that it was taken from.
    :param pin: Key of the directory with its files, one directory per query; ``None`` while the files exist only in
        the working directory.
    :param graph: Digest of the job graph that wrote it.
    :param spark_version: Release that wrote it.
    :param seconds: How long the cut and the retention of its files took.
    """

    kind: ClassVar[str] = "checkpoint"

    job_id: str
    number: int
    run: int
    epoch: int
    reason: CheckpointKind
    created_at: datetime
    queries: dict[Segment, QueryCut]
    directory: str
    pin: str | None
    graph: str
    spark_version: str
    seconds: float | None = None

    @property
    def state_size(self) -> int | None:
        """Bytes of its files; ``None`` when they were not listed."""
        sizes = [size for query in self.queries.values() for size in query.files.values()]
        return sum(sizes) if sizes else None


class CheckpointPointer(Record):
    """``checkpoints/<number>``: refers to a payload.

    :param payload: Key of its payload in storage.
    :param sha256: Digest of the payload.
    :param cut: Query -> batch.
    :param seconds: How long the cut and the retention of its files took; ``None`` when that is not known.
    :param state_size: Bytes of its files; ``None`` when that is not known.
    """

    kind: ClassVar[str] = "checkpoint-pointer"

    number: int
    epoch: int
    run: int
    reason: CheckpointKind
    payload: str
    sha256: str
    size: int
    cut: dict[Segment, int]
    created_at: datetime
    seconds: float | None = None
    state_size: int | None = None


class Algorithm(str, Enum):
    """The algorithm of a digest."""

    SHA256 = "sha256"  # by us, of the bytes that we read
    CRC32C = "crc32c"  # by Spark, when it wrote the file


class ManifestFile(Model):
    """File of a savepoint, with at most one digest.

    :param size: Bytes.
    :param sha256: Digest of its bytes, 64 hex digits; empty with another digest or without one.
    :param digest: Digest of another algorithm, in hex digits; empty without one.
    :param algorithm: Algorithm of *digest*.
    :param etag: Of a savepoint below a prefix of a bucket: the store's ETag of the object.
    """

    size: int
    sha256: str = ""
    digest: str = ""
    algorithm: Algorithm | None = None
    etag: str = ""

    @property
    def digested_by(self) -> Algorithm | None:
        """Algorithm of its digest; ``None`` when only its size is known."""
        return Algorithm.SHA256 if self.sha256 else self.algorithm


class Savepoint(Record):
    """Manifest of a savepoint; written last: without it there is no savepoint.

    :param savepoint_id: Its id.
    :param job_id: The managed job, with *run*, *epoch* and *graph*; empty for a savepoint of any other checkpoint.
    :param run: Run that took it.
    :param epoch: Epoch that took it.
    :param label: A word for people.
    :param schedule: Schedule that made it and may remove it; ``None`` when a user owns it.
    :param queries: Query -> its part of the cut: the records of the closure's batches.
    :param files: Path relative to the savepoint (``<query>/offsets/12``, ``sinks/<query>/_spark_metadata/12``) -> size
        and digest.
    :param shares_inodes: Whether its files are hard links of live ones.
    :param digested: Whether every file has a digest. A file without a digest is compared by size only.
    :param graph: Digest of the job graph that wrote it.
    :param spark_version: Release that wrote it.
    :param directory: Below a prefix of a bucket: directory of the files, relative to the manifest.
    """

    kind: ClassVar[str] = "savepoint"

    savepoint_id: str
    job_id: str = ""
    run: int = 0
    epoch: int = 0
    created_at: datetime
    label: str = ""
    schedule: str | None = None
    queries: dict[str, QueryCut]
    files: dict[str, ManifestFile]
    shares_inodes: bool = False
    digested: bool = True
    graph: str = ""
    spark_version: str
    directory: str = ""

    @property
    def cut(self) -> dict[str, int]:
        """Query -> batch."""
        return {query: part.batch for query, part in self.queries.items()}

    @property
    def size(self) -> int:
        """Bytes of all files, whether or not they are shared with others."""
        return sum(file.size for file in self.files.values())


class SavepointPointer(Record):
    """``savepoints/<id>``: refers to a savepoint's directory.

    :param claimed_by: Run that was restored from it with ``CLAIM``: it is the job's since then, which removes it.
    """

    kind: ClassVar[str] = "savepoint-pointer"

    savepoint_id: str
    directory: str
    manifest_sha256: str
    size: int
    cut: dict[Segment, int]
    schedule: str | None = None
    label: str = ""
    created_at: datetime
    claimed_by: int | None = None


class Claim(Record):
    """``runs/<n>/claim``: directories outside of the cluster that became the job's with the restore of that run.

    The record outlives the directories: outside of the cluster, only claimed directories are ever removed.

    :param epoch: Epoch of the leader that wrote it.
    :param adopted: Claimed checkpoint by query.
    :param given_up: Whether the job no longer needs them: they are on the list of deletions, or removed.
    """

    kind: ClassVar[str] = "claim"

    run: int
    epoch: int
    adopted: dict[Segment, AdoptedCheckpoint]
    at: datetime
    given_up: bool = False


class GivenBatches(Model):
    """Batches given to a fenced ``foreachBatch`` function in all epochs (``connectors.foreach_batch``).

    :param begun: Highest batch of its calls. It may have written all, some or none of the rows.
    :param finished: Highest batch that it has returned from, with the boundaries that are recorded.
    """

    begun: int = -1
    finished: int = -1
