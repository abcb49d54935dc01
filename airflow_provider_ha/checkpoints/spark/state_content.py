"""Content check of state files (the full depth of a verification), large ones in several processes.

Invariant: a file is checked once, and the result is cached, as a snapshot serves many batches. It is read once and in
pieces: memory does not grow with its size.

Invariant: another process gives the same answer as this one, or none. A file without an answer (unreadable, or its
process was killed) is decoded here, so a read error is reported in the usual place.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from threading import Thread

from airflow_provider_ha.checkpoints.spark import checksums, files
from airflow_provider_ha.checkpoints.spark.byte_stream import (
    LZ4_MAGIC,
    StreamCorruptError,
    UnsupportedFormatError,
    decode,
)
from airflow_provider_ha.checkpoints.spark.checksums import SinglePass
from airflow_provider_ha.checkpoints.spark.closure import check_not_empty
from airflow_provider_ha.checkpoints.spark.releases import Release
from airflow_provider_ha.checkpoints.spark.rocksdb import METADATA_LIMIT, ZipCorruptError, read_members
from airflow_provider_ha.checkpoints.spark.sst_table import TableDataError, check_table
from airflow_provider_ha.checkpoints.spark.state_records import check_changelog, check_map
from airflow_provider_ha.checkpoints.spark.state_store import StateFile, StateFileKind
from airflow_provider_ha.checkpoints.spark.tree import Tree
from airflow_provider_ha.errors import CheckpointCorruptError, StorageUnavailableError


# The name of a MANIFEST and a line end.
_CURRENT_LIMIT = 1024
# Five short fields of JSON.
_SPARK_CRC_LIMIT = 64 << 10
_STREAMS = frozenset({StateFileKind.DELTA, StateFileKind.SNAPSHOT, StateFileKind.CHANGELOG})
# Bytes of a stream that are held to be summed up: only where its codec has no checksums.
_HELD = 32 << 20


class ChecksumMismatchError(CheckpointCorruptError):
    """A checksum file does not fit, and this release of Spark refuses the file for it."""


@dataclass(frozen=True, slots=True)
class ContentResult:
    """Result of a file's content check.

    :param not_looked_into: Why its content could not be judged; empty when it was.
    """

    error: CheckpointCorruptError | None
    not_looked_into: str = ""


class ContentCheck:
    """Looks into state files, as the ``accept`` of a :class:`StateReader`."""

    def __init__(self, directory: Tree, release: Release) -> None:
        self._directory = directory
        self._release = release
        self._seen: dict[str, CheckpointCorruptError | None] = {}
        #: Path -> waits for the answer of another process that looks into that file; ``None`` is no answer.
        self.elsewhere: dict[str, Callable[[], ContentResult | None]] = {}
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

    def look(self, file: StateFile) -> ContentResult:
        """Look into *file* now, even if it was looked into before."""
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
            return ContentResult(error, unknown)
        return ContentResult(None, unknown)

    def _problems(self, file: StateFile, read: SinglePass) -> tuple[str, TableDataError | None]:
        """Check the content; return why it could not be judged, and the error that only a read of rows meets."""
        try:
            _check_content(file, read, self._release)
            self._check_changed(file, read)
        except UnsupportedFormatError as reason:
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
        if checksums.was_changed(files.read(self._directory, file.path), files.read(self._directory, hidden)):
            raise CheckpointCorruptError(
                file.path, "it was changed after Spark wrote it: its hidden checksum does not fit"
            )

    def _sums(self, file: StateFile, stack: ExitStack) -> Iterator[checksums.SparkSum | checksums.HadoopSums]:
        """Yield the sums that this release compares when it reads *file*."""
        place, _, own = file.path.rpartition("/")
        by_id = file.kind in {StateFileKind.ZIP, StateFileKind.CHANGELOG} and "_" in own
        visible, hidden = f"{file.path}.crc", f"{place}/.{own}.crc"
        of_zip = file.kind is StateFileKind.ZIP
        if self._release.checks_spark_crc(by_id=by_id, of_zip=of_zip) and files.exists(self._directory, visible):
            with files.opened(self._directory, visible) as opened:
                recorded = opened.read_at(0, min(opened.size, _SPARK_CRC_LIMIT))
            if recorded or not self._release.accepts_empty_spark_crc:
                yield checksums.SparkSum(recorded)
        if self._read_through_hadoop(file, by_id=by_id) and files.exists(self._directory, hidden):
            yield checksums.HadoopSums(stack.enter_context(files.opened(self._directory, hidden)).read_at)

    def _read_through_hadoop(self, file: StateFile, *, by_id: bool) -> bool:
        # Only these are read through Hadoop's FileSystem, which compares its hidden checksums; all else is not.
        if file.kind is StateFileKind.ZIP:
            return self._release.checks_hadoop_crc_of_zip(by_id=by_id)
        return file.kind in {StateFileKind.SST, StateFileKind.LOG}


def _check_content(file: StateFile, read: SinglePass, release: Release) -> None:
    if file.kind is StateFileKind.ZIP:
        _check_zip(file.path, read, release)
    elif file.kind is StateFileKind.SST:
        check_table(file.path, read)
    elif file.kind is not StateFileKind.LOG:
        _check_stream(file, read, release)
    elif file.size:
        # RocksDB itself stops at the first record of a log that is bad, and goes on.
        raise UnsupportedFormatError("it is an archived log of RocksDB")


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
        raise UnsupportedFormatError(OF_A_JVM_OF_FORMAT_1)


def _check_stream(file: StateFile, read: SinglePass, release: Release) -> None:
    try:
        # Spark reads up to the terminator of the records: only before it a broken stream matters.
        pieces = decode(read.pieces(), read.size)
        if file.kind is StateFileKind.CHANGELOG:
            check_changelog(pieces, reads_version=release.reads_version_of_changelogs)
        else:
            check_map(pieces)
    except StreamCorruptError as error:
        raise CheckpointCorruptError(file.path, str(error)) from None


# A request to another process costs as much as decoding some 50 KB here; starting the process, some 100 MB.
LARGE, WORTH = 1 << 20, 256 << 20


@contextmanager
def helped(
    content: ContentCheck, directory: Tree, release: Release, files: Iterable[StateFile], processes: int
) -> Iterator[None]:
    """Let *processes* others decode the large ones of *files*, in order, while the block runs.

    :param content: Receives their answers on request for a file.
    :param directory: A local directory, which other processes can read too.
    """
    large = {file.path: file for file in files if file.size >= LARGE}
    if sum(file.size for file in large.values()) < WORTH:
        yield
        return
    # Not forked: a lock held by another thread of this process would stay locked forever.
    start = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(processes, mp_context=start, initializer=_begin)
    try:
        with _undisturbed(), suppress(BrokenProcessPool):
            for path, file in large.items():
                content.elsewhere[path] = _answer_of(pool.submit(_look, directory, release, file))
        yield
    finally:
        content.elsewhere.clear()
        pool.shutdown(cancel_futures=True)


def cores() -> int:
    """Return the number of processes that this process may keep busy."""
    return len(os.sched_getaffinity(0))


def _answer_of(asked: Future[ContentResult | None]) -> Callable[[], ContentResult | None]:
    def answer() -> ContentResult | None:
        try:
            return asked.result()
        except BrokenProcessPool:
            return None

    return answer


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Shield processes started in the block from Ctrl-C, which reaches the whole group: their owner ends them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin() -> None:
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End with the owner. A pool whose owner was killed never ends: its processes hold the pipe open for each other."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _look(directory: Tree, release: Release, file: StateFile) -> ContentResult | None:
    try:
        return ContentCheck(directory, release).look(file)
    except StorageUnavailableError:
        return None
