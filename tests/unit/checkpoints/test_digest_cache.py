"""Linked savepoints read what is new, and believe an old digest of nothing but the very file that had it."""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import google_crc32c
import pytest

from airflow_provider_ha.checkpoints.model import Algorithm, ManifestFile, Savepoint
from airflow_provider_ha.checkpoints.spark import atomic
from airflow_provider_ha.checkpoints.spark.checksums import copy_file, digest_of
from airflow_provider_ha.checkpoints.store.savepoints import savepoint_directory as directories
from airflow_provider_ha.checkpoints.store.savepoints.creation import take
from airflow_provider_ha.checkpoints.store.savepoints.manifest import write_manifest
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_directory import (
    CACHE,
    CachedDigests,
    DigestCache,
    DirectoryLayout,
    SavepointDirectory,
    Transfer,
    read_savepoint,
)
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_layout import SavepointSource
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_report import judge
from airflow_provider_ha.errors import CheckpointCorruptError, ConfigurationError
from tests.support.checkpoints.portable_helpers import QUERY, checkpoint, names_in, write_batch
from tests.support.spark import corpus


LONG_AGO = 1_700_000_000


class Reads:
    """The files that were read to be digested, one set of sizes for each."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    @property
    def bytes(self) -> int:
        """Return how much was read since it was last asked for."""
        total, self.sizes = sum(self.sizes), []
        return total


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    """Count what goes through the one place that digests a link."""
    counted = Reads()

    def counting(reader: Any) -> ManifestFile:
        found = digest_of(reader)
        counted.sizes.append(found.size)
        return found

    monkeypatch.setattr(directories, "digest_of", counting)
    return counted


@pytest.fixture
def live(tmp_path: Path) -> Path:
    return aged(checkpoint(tmp_path / "live" / QUERY))


def aged(directory: Path) -> Path:
    """Let no file below *directory* be as young as its clock is coarse."""
    for path in directory.rglob("*"):
        os.utime(path, (LONG_AGO, LONG_AGO))
    return directory


def linked(live: Path, target: Path, **options: Any) -> Savepoint:
    return take([SavepointSource(query=QUERY, directory=live, **options)], DirectoryLayout(target, link=True))


def size_of(directory: Path, *names: str) -> int:
    return sum((directory / name).stat().st_size for name in names)


def test_the_second_savepoint_of_a_query_reads_what_its_new_batch_wrote(
    live: Path, tmp_path: Path, reads: Reads
) -> None:
    first = linked(live, tmp_path / "one")
    assert reads.bytes == sum(file.size for file in first.files.values())
    write_batch(live, 3)
    aged(live)

    second = linked(live, tmp_path / "two")

    assert reads.bytes == size_of(live, "offsets/3", "commits/3")
    assert second.digested is True
    assert second.files[f"{QUERY}/offsets/2"] == first.files[f"{QUERY}/offsets/2"]
    assert judge(SavepointDirectory(tmp_path / "two", second)).restorable is True


@pytest.mark.parametrize("shape", ["hdfs", "rocksdb1", "rocksdb1-changelog", "rocksdb2", "rocksdb2-changelog"])
def test_so_it_is_for_the_files_of_every_state_store(shape: str, tmp_path: Path, reads: Reads) -> None:
    live = aged(corpus.checkpoint_copy(shape, tmp_path / "live"))
    first = linked(live, tmp_path / "one", batch=corpus.BATCHES - 2)
    assert reads.bytes > 0

    second = linked(live, tmp_path / "two", batch=corpus.BATCHES - 1)

    new = {name: file for name, file in second.files.items() if name not in first.files}
    assert reads.bytes == sum(file.size for file in new.values() if file.digested_by is not Algorithm.CRC32C)
    assert judge(SavepointDirectory(tmp_path / "two", second), depth="full").restorable is True


def test_files_with_a_checksum_of_spark_are_not_read(tmp_path: Path, reads: Reads) -> None:
    live = aged(corpus.checkpoint_copy("rocksdb2-changelog", tmp_path / "live"))

    made = linked(live, tmp_path / "sp")

    by_spark = {name for name, file in made.files.items() if file.digested_by is Algorithm.CRC32C}
    assert by_spark
    assert {Path(name).suffix for name in by_spark} <= {".zip", ".changelog"}
    assert reads.bytes == sum(file.size for name, file in made.files.items() if name not in by_spark)
    damaged = tmp_path / "sp" / min(by_spark)
    data = damaged.read_bytes()
    damaged.write_bytes(bytes([data[0] ^ 1]) + data[1:])
    assert [problem.path for problem in judge(SavepointDirectory(tmp_path / "sp", made)).files] == [min(by_spark)]


@pytest.mark.parametrize(
    ("name", "algorithm"),
    [("4_a1b2.changelog", Algorithm.CRC32C), ("4.changelog", Algorithm.SHA256), ("4.delta", Algorithm.SHA256)],
)
def test_a_checksum_beside_a_name_that_may_be_written_again_is_not_believed(
    tmp_path: Path, name: str, algorithm: Algorithm
) -> None:
    """Format 1: it may be that of another attempt's file, which was renamed over this one or is about to be."""
    (tmp_path / name).write_bytes(b"state")
    write_sum(tmp_path / name, size=5)

    assert (
        Transfer(link=True, cache=cache(tmp_path))(name, tmp_path / name, tmp_path / "linked").digested_by is algorithm
    )


@pytest.mark.parametrize("size", [4, None])
def test_a_checksum_that_says_nothing_of_this_file_is_not_believed(tmp_path: Path, size: int | None) -> None:
    (tmp_path / "4_a.zip").write_bytes(b"state")
    write_sum(tmp_path / "4_a.zip", size=size)

    assert Transfer(link=True, cache=cache(tmp_path))("4_a.zip", tmp_path / "4_a.zip", tmp_path / "linked").sha256


def write_sum(path: Path, *, size: int | None) -> None:
    """Write what Spark writes beside a file; ``None`` for an empty checksum file."""
    fields = {"algorithm": "CRC32C", "value": google_crc32c.value(path.read_bytes()), "mainFileSize": size}
    path.with_name(f"{path.name}.crc").write_text(json.dumps(fields) if size is not None else "")


def cache(place: Path) -> DigestCache:
    """Return the cache of *place*, for a savepoint that is just begun."""
    begun = place / "begun"
    begun.mkdir(exist_ok=True)
    os.utime(begun)
    return DigestCache(place / CACHE, begun)


def renamed_over(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(path.read_bytes()[::-1])
    os.utime(other, (LONG_AGO, LONG_AGO))
    other.rename(path)


def changed_in_place(path: Path) -> None:
    path.write_bytes(path.read_bytes()[::-1])
    os.utime(path, (LONG_AGO + 1, LONG_AGO + 1))


def grown(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\n")
    os.utime(path, (LONG_AGO, LONG_AGO))


@pytest.mark.parametrize("change", [renamed_over, changed_in_place, grown], ids=lambda change: change.__name__)
def test_another_file_of_the_name_is_read(
    live: Path, tmp_path: Path, reads: Reads, change: Callable[[Path], None]
) -> None:
    """``metadata`` is no file that Spark changes; a digest must not depend on that."""
    old = linked(live, tmp_path / "one")
    assert reads.bytes
    change(live / "metadata")

    cached = cache(tmp_path)

    assert cached.known(f"{QUERY}/metadata", (live / "metadata").stat()) is None
    assert cached.known(f"{QUERY}/offsets/2", (live / "offsets/2").stat()) == old.files[f"{QUERY}/offsets/2"].sha256


def test_a_file_that_could_still_change_unnoticed_is_not_remembered(live: Path, tmp_path: Path, reads: Reads) -> None:
    os.utime(live / "offsets" / "2", (time.time() - 1, time.time() - 1))
    linked(live, tmp_path / "one")
    assert reads.bytes

    linked(live, tmp_path / "two")

    assert reads.bytes == size_of(live, "offsets/2")


def test_nor_is_one_of_a_device_with_another_clock(tmp_path: Path) -> None:
    known = cache(tmp_path)
    mine = {"st_ino": 7, "st_size": 5, "st_mtime_ns": LONG_AGO * 10**9}

    for name, device in (("here", tmp_path.stat().st_dev), ("there", tmp_path.stat().st_dev + 1)):
        known.learn(name, SimpleNamespace(**mine, st_dev=device), "0" * 64)  # type: ignore[arg-type]  # what is used
    known.save()

    assert list(CachedDigests.from_bytes((tmp_path / CACHE).read_bytes(), source="").files) == ["here"]


def test_a_digest_is_not_believed_for_a_file_of_another_device(live: Path, tmp_path: Path) -> None:
    linked(live, tmp_path / "one")
    status = (live / "offsets/2").stat()
    elsewhere = SimpleNamespace(
        st_ino=status.st_ino, st_size=status.st_size, st_mtime_ns=status.st_mtime_ns, st_dev=status.st_dev + 1
    )

    assert cache(tmp_path).known(f"{QUERY}/offsets/2", status) is not None
    assert cache(tmp_path).known(f"{QUERY}/offsets/2", elsewhere) is None  # type: ignore[arg-type]  # what is used


def test_the_digest_is_of_the_link_and_not_of_a_later_file_of_this_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another attempt renames its file over the name between the link and the digest."""
    source = tmp_path / "4.delta"
    source.write_bytes(b"state")

    def then_replaced(source: Path, target: Path) -> bool:
        done = atomic.linked(source, target)
        renamed_over(source)
        return done

    monkeypatch.setattr(directories, "linked", then_replaced)

    made = Transfer(link=True, cache=cache(tmp_path))("4.delta", source, tmp_path / "linked")

    assert source.read_bytes() == b"etats"
    assert made.sha256 == hashlib.sha256(b"state").hexdigest()


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[: len(data) // 2],
        lambda data: data.replace(b'sha256":"', b'sha256":"0', 1),
        lambda data: data.replace(b'"version":1', b'"version":9'),
        lambda data: b"[" * 100_000,
        lambda data: b"",
    ],
    ids=["cut", "changed", "newer", "deep", "empty"],
)
def test_a_damaged_cache_is_dropped_with_a_word_and_never_believed(
    live: Path, tmp_path: Path, reads: Reads, caplog: pytest.LogCaptureFixture, damage: Callable[[bytes], bytes]
) -> None:
    first = linked(live, tmp_path / "one")
    (tmp_path / CACHE).write_bytes(damage((tmp_path / CACHE).read_bytes()))
    everything = reads.bytes

    with caplog.at_level(logging.WARNING):
        second = linked(live, tmp_path / "two")

    assert (reads.bytes, second.files) == (everything, first.files)
    assert "reading every byte again" in caplog.text
    linked(live, tmp_path / "three")
    assert reads.bytes == 0


def test_a_cache_that_cannot_be_written_keeps_no_savepoint_from_being_made(
    live: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / CACHE).mkdir()

    made = linked(live, tmp_path / "one")

    assert judge(SavepointDirectory(tmp_path / "one", made)).restorable is True
    assert "cannot write" in caplog.text


def test_the_cache_drops_files_that_are_in_no_savepoint_of_the_query(live: Path, tmp_path: Path) -> None:
    other = aged(checkpoint(tmp_path / "live" / "other"))
    take([SavepointSource(query="other", directory=other)], DirectoryLayout(tmp_path / "others", link=True))
    linked(live, tmp_path / "one", batch=1)
    linked(live, tmp_path / "two", batch=2)

    known = CachedDigests.from_bytes((tmp_path / CACHE).read_bytes(), source="").files

    assert set(known) == {
        f"{query}/{name}" for query in (QUERY, "other") for name in ("metadata", "commits/2", "offsets/1", "offsets/2")
    }


def test_copies_leave_no_cache(live: Path, tmp_path: Path) -> None:
    take([SavepointSource(query=QUERY, directory=live)], DirectoryLayout(tmp_path / "sp"))

    assert names_in(tmp_path) == ["live", "sp"]


def test_without_digests_nothing_is_read_and_the_manifest_says_so(live: Path, tmp_path: Path, reads: Reads) -> None:
    made = take(
        [SavepointSource(query=QUERY, directory=live)], DirectoryLayout(tmp_path / "sp", link=True, digests=False)
    )

    assert (reads.bytes, made.digested, read_savepoint(tmp_path / "sp").savepoint) == (0, False, made)
    report = judge(SavepointDirectory(tmp_path / "sp", made))
    assert (report.restorable, report.not_digested) == (True, len(made.files))
    assert names_in(tmp_path) == ["live", "sp"]


def test_a_copy_without_digests_is_refused(live: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="saves nothing"):
        take([SavepointSource(query=QUERY, directory=live)], DirectoryLayout(tmp_path / "sp", digests=False))


def test_what_could_not_be_linked_is_copied_and_read_again(
    live: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two file systems, on a disk that gives back other bytes than were written."""

    def no_link(*_: object) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    def on_a_bad_disk(directory: Path, made: Savepoint) -> None:
        write_manifest(directory, made)
        path = directory / QUERY / "metadata"
        path.write_bytes(path.read_bytes()[::-1])

    monkeypatch.setattr(os, "link", no_link)
    made = linked(live, tmp_path / "good")
    assert (made.shares_inodes, made.digested) == (False, True)
    monkeypatch.setattr(directories, "write_manifest", on_a_bad_disk)

    with pytest.raises(CheckpointCorruptError, match=r"metadata.*digest"):
        linked(live, tmp_path / "bad")


def test_a_manifest_has_the_sizes_of_the_files_that_came(
    live: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another attempt may write a file again between the look at the closure and the copy."""

    def after_another_attempt(source: Path, target: Path) -> ManifestFile:
        if source.name == "metadata":
            shutil.copy(source, tmp_path / "aside")
            (tmp_path / "aside").write_text(source.read_text() + "\n")
            (tmp_path / "aside").rename(source)
        return copy_file(source, target)

    monkeypatch.setattr(directories, "copy_file", after_another_attempt)

    made = take([SavepointSource(query=QUERY, directory=live)], DirectoryLayout(tmp_path / "sp"))

    assert read_savepoint(tmp_path / "sp").savepoint == made
