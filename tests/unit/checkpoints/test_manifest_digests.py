"""What a manifest says of the bytes of a file: a SHA-256, the CRC32C that Spark wrote, or only how many there are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import google_crc32c
import pytest

from airflow_provider_ha.checkpoints.model import Algorithm, ManifestFile, Savepoint
from airflow_provider_ha.checkpoints.store.savepoints.archive import export, unpack
from airflow_provider_ha.checkpoints.store.savepoints.manifest import write_manifest
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_directory import SavepointDirectory, read_savepoint
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_report import judge
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_restore import restore
from airflow_provider_ha.errors import CheckpointCorruptError
from tests.support.checkpoints.portable_helpers import QUERY, savepoint


FILE = f"{QUERY}/offsets/2"
Kind = Callable[[bytes], ManifestFile]  # says of a file's bytes what a manifest says


def crc32c_of(data: bytes) -> ManifestFile:
    return ManifestFile(size=len(data), digest=f"{google_crc32c.value(data):08x}", algorithm=Algorithm.CRC32C)


def size_of(data: bytes) -> ManifestFile:
    return ManifestFile(size=len(data))


def described_by(kind: Kind, place: Path) -> tuple[Path, Savepoint]:
    """Make a savepoint whose manifest says of its files what *kind* says."""
    directory, made = savepoint(place)
    files = {name: kind((directory / name).read_bytes()) for name in made.files}
    digested = all(file.digested_by for file in files.values())
    made = made.model_copy(update={"files": files, "digested": digested})
    write_manifest(directory, made)
    return directory, made


def change(directory: Path) -> None:
    """Change one byte of a file, in place and without a change of its size."""
    path = directory / FILE
    path.write_bytes(path.read_bytes().replace(b"17", b"18", 1))


@pytest.mark.parametrize("kind", [crc32c_of, size_of])
def test_a_savepoint_comes_back_whatever_its_digests_are(kind: Kind, tmp_path: Path) -> None:
    directory, made = described_by(kind, tmp_path)

    export(directory, made, tmp_path / "sp.tar")
    unpack(tmp_path / "sp.tar", tmp_path / "back")
    restore(read_savepoint(tmp_path / "back"), tmp_path / "restored")

    assert read_savepoint(tmp_path / "back").savepoint == made
    assert judge(SavepointDirectory(tmp_path / "back", made)).restorable is True


def test_a_changed_byte_is_found_by_the_checksum_of_spark(tmp_path: Path) -> None:
    directory, made = described_by(crc32c_of, tmp_path)
    export(directory, made, tmp_path / "sp.tar")
    packed = (tmp_path / "sp.tar").read_bytes()
    (tmp_path / "sp.tar").write_bytes(packed.replace(b'batchTimestampMs": 17', b'batchTimestampMs": 18'))
    change(directory)

    assert [problem.path for problem in judge(SavepointDirectory(directory, made)).files] == [FILE]
    for refused in (
        lambda: unpack(tmp_path / "sp.tar", tmp_path / "back"),
        lambda: export(directory, made, tmp_path / "again.tar"),
        lambda: restore(SavepointDirectory(directory, made), tmp_path / "restored"),
    ):
        with pytest.raises(CheckpointCorruptError):
            refused()


def test_without_digests_the_sizes_are_compared_and_nothing_is_said_of_the_bytes(tmp_path: Path) -> None:
    directory, made = described_by(size_of, tmp_path)
    change(directory)

    assert judge(SavepointDirectory(directory, made)).files == ()

    (directory / FILE).write_bytes(b"v1")
    assert [problem.path for problem in judge(SavepointDirectory(directory, made)).files] == [FILE]


def test_a_link_is_no_file_of_a_savepoint_whatever_it_leads_to(tmp_path: Path) -> None:
    directory, made = savepoint(tmp_path)
    (directory / FILE).rename(tmp_path / "elsewhere")
    (directory / FILE).symlink_to(tmp_path / "elsewhere")

    (problem,) = judge(SavepointDirectory(directory, made)).files

    assert (problem.path, problem.reason) == (FILE, "it is not a regular file")
