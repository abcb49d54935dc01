"""Content check of state files: the full depth of a verification.

Invariant: a file is checked once, and the result is cached, as a snapshot serves many batches. It is read once and in
pieces: memory does not grow with its size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from airflow_provider_ha.checkpoints.format import crc
from airflow_provider_ha.checkpoints.format.byte_stream import NotLookedIntoError, StreamCorruptError
from airflow_provider_ha.checkpoints.format.codecs import LZ4_MAGIC, decode
from airflow_provider_ha.checkpoints.format.records import check_changelog, check_map
from airflow_provider_ha.checkpoints.format.releases import Release
from airflow_provider_ha.checkpoints.format.rocksdb import METADATA_LIMIT
from airflow_provider_ha.checkpoints.format.single_pass import SinglePass
from airflow_provider_ha.checkpoints.format.sst import TableDataError, check_table
from airflow_provider_ha.checkpoints.format.state import check_not_empty
from airflow_provider_ha.checkpoints.format.store_files import Kind, StateFile
from airflow_provider_ha.checkpoints.format.zip_stream import ZipCorruptError, read_members
from airflow_provider_ha.checkpoints.trees import files
from airflow_provider_ha.checkpoints.trees.tree import Tree
from airflow_provider_ha.errors import CheckpointCorruptError


# The name of a MANIFEST and a line end.
_CURRENT_LIMIT = 1024
# Five short fields of JSON.
_SPARK_CRC_LIMIT = 64 << 10
_STREAMS = frozenset({Kind.DELTA, Kind.SNAPSHOT, Kind.CHANGELOG})
# Bytes of a stream that are held to be summed up: only where its codec has no checksums.
_HELD = 32 << 20


class ChecksumMismatchError(CheckpointCorruptError):
    """A checksum file does not fit, and this release of Spark refuses the file for it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Result of a file's content check.

    :param error: The damage; ``None`` without one.
    :param not_looked_into: Why its content could not be judged; empty when it was.
    """

    error: CheckpointCorruptError | None
    not_looked_into: str = ""


class ContentCheck:
    """Looks into state files, as the ``accept`` of a :class:`StateReader`.

    :param directory: The checkpoint.
    :param release: Whose checksums count.
    """

    def __init__(self, directory: Tree, release: Release) -> None:
        self._directory = directory
        self._release = release
        self._seen: dict[str, CheckpointCorruptError | None] = {}
        #: Path -> waits for the answer of another process that looks into that file; ``None`` is no answer.
        self.elsewhere: dict[str, Callable[[], Answer | None]] = {}
        #: Path -> why its content could not be judged: it is of a kind that is not known here. That is no fault of it.
        self.not_looked_into: dict[str, str] = {}

    def __call__(self, file: StateFile) -> None:
        """Look into *file*.

        :raises CheckpointCorruptError: It is not Spark's content.
        """
        if file.path not in self._seen:
            ask = self.elsewhere.pop(file.path, None)
            answer = (ask() if ask else None) or self.look(file)
            self._seen[file.path] = answer.error
            if answer.not_looked_into:
                self.not_looked_into[file.path] = answer.not_looked_into
        known = self._seen[file.path]
        if known is not None:
            raise known

    def look(self, file: StateFile) -> Answer:
        """Look into *file* now, even if it was looked into before.

        :raises StorageUnavailableError: It could not be read.
        """
        unknown = ""
        try:
            check_not_empty(file)
            with ExitStack() as stack:
                sums = list(self._sums(file, stack))
                read = SinglePass(stack.enter_context(files.opened(self._directory, file.path)), sums)
                unknown, rows = self._problems(file, read)
                read.finish()
                problem = next(filter(None, (each.problem() for each in sums)), None)
                if rows is not None:
                    # A sum that does not fit is met before the table is opened: then it counts as any bad file.
                    raise CheckpointCorruptError(file.path, rows.reason) if problem else rows
                if problem:
                    raise ChecksumMismatchError(file.path, problem)
        except CheckpointCorruptError as error:
            return Answer(error, unknown)
        return Answer(None, unknown)

    def _problems(self, file: StateFile, read: SinglePass) -> tuple[str, TableDataError | None]:
        """Check the content; return why it could not be judged, and the error that only a read of rows meets."""
        try:
            _check_content(file, read, self._release)
            self._check_changed(file, read)
        except NotLookedIntoError as reason:
            return str(reason), None
        except TableDataError as error:
            return "", error
        return "", None

    def _check_changed(self, file: StateFile, read: SinglePass) -> None:
        """Compare a stream without checksums in its codec with the hidden checksum file, which Spark ignores.

        A changed byte changes a row without an error.
        """
        place, _, own = file.path.rpartition("/")
        hidden = f"{place}/.{own}.crc"
        if file.kind not in _STREAMS or read.at(0, len(LZ4_MAGIC)) == LZ4_MAGIC:
            return
        if file.size > _HELD or not files.exists(self._directory, hidden):
            return
        if crc.was_changed(files.read(self._directory, file.path), files.read(self._directory, hidden)):
            raise CheckpointCorruptError(
                file.path, "it was changed after Spark wrote it: its hidden checksum does not fit"
            )

    def _sums(self, file: StateFile, stack: ExitStack) -> Iterator[crc.SparkSum | crc.HadoopSums]:
        """Yield the sums that this release compares when it reads *file*."""
        place, _, own = file.path.rpartition("/")
        by_id = file.kind in {Kind.ZIP, Kind.CHANGELOG} and "_" in own
        visible, hidden = f"{file.path}.crc", f"{place}/.{own}.crc"
        of_zip = file.kind is Kind.ZIP
        if self._release.checks_spark_crc(by_id=by_id, of_zip=of_zip) and files.exists(self._directory, visible):
            with files.opened(self._directory, visible) as opened:
                recorded = opened.read_at(0, min(opened.size, _SPARK_CRC_LIMIT))
            if recorded or not self._release.accepts_empty_spark_crc:
                yield crc.SparkSum(recorded)
        if self._read_through_hadoop(file, by_id=by_id) and files.exists(self._directory, hidden):
            yield crc.HadoopSums(stack.enter_context(files.opened(self._directory, hidden)).read_at)

    def _read_through_hadoop(self, file: StateFile, *, by_id: bool) -> bool:
        # Only these are read through Hadoop's FileSystem, which compares its hidden checksums; all else is not.
        if file.kind is Kind.ZIP:
            return self._release.checks_hadoop_crc_of_zip(by_id=by_id)
        return file.kind in {Kind.SST, Kind.LOG}


def _check_content(file: StateFile, read: SinglePass, release: Release) -> None:
    if file.kind is Kind.ZIP:
        _check_zip(file.path, read, release)
    elif file.kind is Kind.SST:
        check_table(file.path, read)
    elif file.kind is not Kind.LOG:
        _check_stream(file, read, release)
    elif file.size:
        # RocksDB itself stops at the first record of a log that is bad, and goes on.
        raise NotLookedIntoError("it is an archived log of RocksDB")


OF_A_JVM_OF_FORMAT_1 = (
    "its inner metadata has the version 'v1': Spark 4.0 reads such a zip of checkpoint format 2 only in a JVM whose "
    "first query with RocksDB has format 1"
)
"""Why it depends on the JVM whether a whole zip can be read."""


def _check_zip(path: str, read: SinglePass, release: Release) -> None:
    try:
        members = read_members(read.pieces(), read.size, {"CURRENT": _CURRENT_LIMIT, "metadata": METADATA_LIMIT})
    except ZipCorruptError as error:
        raise CheckpointCorruptError(path, f"it is not a whole zip: {error}") from None
    version = members.kept.get("metadata", b"").partition(b"\n")[0].decode(errors="replace")
    by_id = "_" in path.rpartition("/")[2]
    wanted = release.inner_version(by_id=by_id)
    depends = by_id and version == "v1" and version != wanted
    if version != wanted and not depends:
        raise CheckpointCorruptError(
            path, f"its inner metadata has the version {version!r}, which this release refuses"
        )
    current = members.kept.get("CURRENT", b"").decode(errors="replace").strip()
    if current not in members.sizes:
        raise CheckpointCorruptError(path, f"its CURRENT names {current!r}, which is not in it")
    empty = [name for name, size in members.sizes.items() if size == 0 and not name.endswith(".log")]
    if empty:
        raise CheckpointCorruptError(path, f"its member {empty[0]} is empty")
    if depends:
        raise NotLookedIntoError(OF_A_JVM_OF_FORMAT_1)


def _check_stream(file: StateFile, read: SinglePass, release: Release) -> None:
    try:
        # Spark reads up to the terminator of the records: only before it a broken stream matters.
        pieces = decode(read.pieces(), read.size)
        if file.kind is Kind.CHANGELOG:
            check_changelog(pieces, reads_version=release.reads_version_of_changelogs)
        else:
            check_map(pieces)
    except StreamCorruptError as error:
        raise CheckpointCorruptError(file.path, str(error)) from None
