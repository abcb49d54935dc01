"""Looking into state files: the full depth of a verification.

Invariant: a file is looked into once, and the answer is kept: one snapshot carries many batches.
"""

from __future__ import annotations

from pathlib import Path

from airflow_provider_ha.checkpoints.format import crc, files
from airflow_provider_ha.checkpoints.format.codecs import StreamCorruptError, UnknownCodecError, decode
from airflow_provider_ha.checkpoints.format.records import check_changelog, check_map
from airflow_provider_ha.checkpoints.format.releases import Release
from airflow_provider_ha.checkpoints.format.state import StateReader, check_not_empty
from airflow_provider_ha.checkpoints.format.store_files import Kind, StateFile
from airflow_provider_ha.checkpoints.format.zip_stream import ZipCorruptError, read_members
from airflow_provider_ha.errors import CheckpointCorruptError


# The last 8 bytes of every RocksDB table file in the block-based format.
_SST_MAGIC = bytes.fromhex("f7cff485b741e288")


class ChecksumMismatchError(CheckpointCorruptError):
    """A checksum file does not fit, and this release of Spark refuses the file for it."""


class ContentCheck:
    """Looks into state files, as the ``accept`` of a :class:`StateReader`.

    :param directory: The checkpoint.
    :param release: Whose checksums count.
    """

    def __init__(self, directory: Path, release: Release) -> None:
        self._directory = directory
        self._release = release
        self._seen: dict[str, CheckpointCorruptError | None] = {}

    def __call__(self, file: StateFile) -> None:
        """Look into *file*.

        :raises CheckpointCorruptError: It is not what Spark wrote.
        """
        if file.path not in self._seen:
            self._seen[file.path] = self._look(file)
        known = self._seen[file.path]
        if known is not None:
            raise known

    def _look(self, file: StateFile) -> CheckpointCorruptError | None:
        try:
            check_not_empty(file)
            data = files.read(self._directory, file.path)
            _check_content(file, data)
            self._check_sums(file, data)
        except CheckpointCorruptError as error:
            return error
        return None

    def _check_sums(self, file: StateFile, data: bytes) -> None:
        own = Path(file.path).name
        by_id = file.kind in {Kind.ZIP, Kind.CHANGELOG} and "_" in own
        visible, hidden = f"{file.path}.crc", f"{Path(file.path).parent}/.{own}.crc"
        if self._release.checks_spark_crc(by_id=by_id) and files.exists(self._directory, visible):
            recorded = files.read(self._directory, visible)
            counts = bool(recorded) or not self._release.accepts_empty_spark_crc
            if counts and (problem := crc.spark_problem(data, recorded)):
                raise ChecksumMismatchError(file.path, problem)
        if _read_through_hadoop(file, by_id=by_id) and files.exists(self._directory, hidden):
            problem = crc.hadoop_problem(data, files.read(self._directory, hidden))
            if problem:
                raise ChecksumMismatchError(file.path, problem)


def deep_reader(directory: Path, release: Release) -> StateReader:
    """Return a reader that looks into every state file before it relies on it: for a restore, not for a pin."""
    return StateReader(directory, ContentCheck(directory, release))


def _read_through_hadoop(file: StateFile, *, by_id: bool) -> bool:
    # Only these are read through Hadoop's FileSystem, which compares its hidden checksums; all else is not.
    return file.kind in {Kind.SST, Kind.LOG} or (file.kind is Kind.ZIP and not by_id)


def _check_content(file: StateFile, data: bytes) -> None:
    if file.kind is Kind.ZIP:
        _check_zip(file.path, data)
    elif file.kind is Kind.SST:
        if not data.endswith(_SST_MAGIC):
            raise CheckpointCorruptError(file.path, "it does not end as a RocksDB table file does")
    elif file.kind is not Kind.LOG:
        _check_stream(file, data)


def _check_zip(path: str, data: bytes) -> None:
    try:
        members = read_members(data)
    except ZipCorruptError as error:
        raise CheckpointCorruptError(path, f"it is not a whole zip: {error}") from None
    sizes = {name: len(content) for name, content in members.items()}
    current = members.get("CURRENT", b"").decode(errors="replace").strip()
    if current not in sizes:
        raise CheckpointCorruptError(path, f"its CURRENT names {current!r}, which is not in it")
    empty = [name for name, size in sizes.items() if size == 0 and not name.endswith(".log")]
    if empty:
        raise CheckpointCorruptError(path, f"its member {empty[0]} is empty")


def _check_stream(file: StateFile, data: bytes) -> None:
    try:
        decoded = decode(data)
    except UnknownCodecError:
        return
    except StreamCorruptError as error:
        raise CheckpointCorruptError(file.path, str(error)) from None
    try:
        check = check_changelog if file.kind is Kind.CHANGELOG else check_map
        check(decoded.content)
    except StreamCorruptError as error:
        # Spark reads up to the terminator of the records: only before it a broken stream matters.
        raise CheckpointCorruptError(file.path, decoded.problem or str(error)) from None
