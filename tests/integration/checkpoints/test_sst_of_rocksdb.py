"""Tables that RocksDB wrote, by itself and for Spark: the undamaged ones pass, and any flipped byte is found."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.spark.byte_stream import UnsupportedFormatError
from airflow_provider_ha.checkpoints.spark.checksums import SinglePass
from airflow_provider_ha.checkpoints.spark.local_tree import LocalFile
from airflow_provider_ha.checkpoints.spark.sst_table import check_table
from airflow_provider_ha.errors import CheckpointCorruptError
from tests.support.spark import rocksdb_tables
from tests.support.spark.corpus import corpus


# The first test makes the corpus, which takes half a minute of two idle cores.
pytestmark = pytest.mark.timeout(300)

FLIPS = 200
FOOTER = 53


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with tables of every format."""
    directory = tmp_path_factory.mktemp("tables")
    rocksdb_tables.make(directory)
    return directory


class Flipper:
    """A copy of a table in memory, in which one byte at a time is changed."""

    def __init__(self, content: bytes, descriptor: int) -> None:
        self._content = content
        self._descriptor = descriptor
        os.pwrite(descriptor, content, 0)

    def check(self) -> None:
        check_table("1.sst", SinglePass(LocalFile("1.sst", len(self._content), self._descriptor)))

    def found(self, place: int, change: int) -> bool:
        """Whether a changed byte is called corrupt."""
        os.pwrite(self._descriptor, bytes([self._content[place] ^ change]), place)
        try:
            self.check()
        except CheckpointCorruptError:
            return True
        except UnsupportedFormatError:
            return False
        finally:
            os.pwrite(self._descriptor, self._content[place : place + 1], place)
        return False

    def unread(self) -> range:
        """Return the places of which RocksDB reads nothing: the padding in a footer that has no checksum.

        The last byte of the handles is one of them: its highest bit only says that a zero follows, as it does.
        """
        footer = len(self._content) - FOOTER
        if int.from_bytes(self._content[-12:-8], "little") >= 6:
            return range(0)
        numbers, place = 0, footer + 1
        while numbers < 4:
            numbers += self._content[place] < 0x80
            place += 1
        return range(place - 1, footer + 41)


@contextmanager
def flipper(path: Path) -> Iterator[Flipper]:
    descriptor = os.memfd_create(path.name)
    try:
        yield Flipper(path.read_bytes(), descriptor)
    finally:
        os.close(descriptor)


def missed(path: Path) -> list[tuple[int, int]]:
    """Flip bytes at random places that RocksDB reads; returns those that were not found."""
    dice = random.Random(path.name)
    with flipper(path) as copy:
        copy.check()
        places = [place for place in range(path.stat().st_size) if place not in copy.unread()]
        flips = [(dice.choice(places), dice.randrange(1, 256)) for _ in range(FLIPS)]
        return [flip for flip in flips if not copy.found(*flip)]


@pytest.mark.parametrize("shape", ["rocksdb1", "rocksdb1-changelog", "rocksdb2", "rocksdb2-changelog", "rocksdb2-join"])
def test_every_table_that_spark_wrote_is_whole_and_every_flip_in_it_is_found(shape: str) -> None:
    found = sorted((corpus() / shape / "checkpoint").rglob("*.sst"))
    assert found
    assert {path.name: missed(path) for path in found} == {path.name: [] for path in found}


@pytest.mark.parametrize("table", sorted(set(rocksdb_tables.TABLES)), ids=rocksdb_tables.name_of)
def test_every_format_of_rocksdb_is_read_and_every_flip_in_it_is_found(
    table: tuple[int, str, str, str], tables: Path
) -> None:
    assert missed(tables / rocksdb_tables.name_of(table)) == []


@pytest.mark.parametrize("version", rocksdb_tables.VERSIONS)
def test_every_flip_in_a_footer_is_found_but_in_what_rocksdb_does_not_read(version: int, tables: Path) -> None:
    with flipper(tables / rocksdb_tables.name_of((version, "kXXH3", "LZ4", "kBinarySearch"))) as copy:
        size = len(copy._content)
        found = {place for place in range(size - FOOTER, size) if copy.found(place, 1)}
        assert set(range(size - FOOTER, size)) - found <= set(copy.unread())


def test_padding_that_rocksdb_does_not_read_condemns_no_table(tables: Path) -> None:
    with flipper(tables / rocksdb_tables.name_of((5, "kXXH3", "LZ4", "kBinarySearch"))) as copy:
        padding = copy.unread()[1:]
        assert padding
        assert not [place for place in padding if copy.found(place, 0x55)]


def test_a_table_without_checksums_is_said_to_have_none(tables: Path) -> None:
    path = tables / rocksdb_tables.name_of((5, "kNoChecksum", "LZ4", "kBinarySearch"))
    with flipper(path) as copy, pytest.raises(UnsupportedFormatError, match="no checksums"):
        copy.check()
