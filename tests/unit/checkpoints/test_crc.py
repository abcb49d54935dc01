"""Checksums of whole files, computed while another process reads them."""

from __future__ import annotations

import itertools
import json
import struct
import tracemalloc
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_ha.checkpoints.spark import checksums


def hadoop_file(data: bytes, chunk: int = 512) -> bytes:
    """Write what Hadoop's LocalFileSystem writes beside a file."""
    sums = (zlib.crc32(data[at : at + chunk]) for at in range(0, len(data), chunk))
    return b"crc\0" + struct.pack(">I", chunk) + b"".join(struct.pack(">I", total) for total in sums)


def hadoop_problem(data: bytes, recorded: bytes, *cuts: int) -> str:
    """Sum *data* up in the pieces between *cuts*."""
    sums = checksums.HadoopSums(lambda offset, length: recorded[offset : offset + length])
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    for begin, end in itertools.pairwise(edges):
        sums.add(data[begin:end])
    return sums.problem()


def spark_problem(data: bytes, recorded: bytes) -> str:
    """Sum *data* up in two pieces."""
    total = checksums.SparkSum(recorded)
    total.add(data[:3])
    total.add(data[3:])
    return total.problem()


def spark_file(**changes: object) -> bytes:
    """Write what Spark writes beside a file whose content is ``123456789``."""
    fields = {"algorithm": "CRC32C", "value": 0xE3069283 - (1 << 32), "mainFileSize": 9}
    return json.dumps(fields | changes).encode()


def test_a_spark_checksum_that_fits_is_no_problem() -> None:
    assert not spark_problem(b"123456789", spark_file())


@pytest.mark.parametrize(
    ("recorded", "reason"),
    [
        (spark_file(value=1), "its checksum file records 1"),
        (spark_file(mainFileSize=10), "it has 9 bytes, its checksum file records 10"),
        (b"", "cannot be read"),
        (b"[]", "cannot be read"),
        (b'{"algorithm": "CRC32C", "value": 1e999, "mainFileSize": 9}', "cannot be read"),
        (b"[" * 60_000, "cannot be read"),
    ],
    ids=["value", "size", "empty", "list", "infinite", "deep"],
)
def test_a_spark_checksum_that_does_not_fit_says_why(recorded: bytes, reason: str) -> None:
    assert reason in spark_problem(b"123456789", recorded)


@settings(deadline=None)
@given(st.binary(max_size=3000), st.lists(st.integers(0, 3000), max_size=5), st.sampled_from([1, 7, 512]))
def test_hadoop_sums_fit_in_whatever_pieces_a_file_comes(data: bytes, cuts: list[int], chunk: int) -> None:
    assert not hadoop_problem(data, hadoop_file(data, chunk), *cuts)


@settings(deadline=None)
@given(st.binary(min_size=1, max_size=3000), st.lists(st.integers(0, 3000), max_size=5), st.data())
def test_a_flipped_byte_does_not_fit_its_hadoop_sum(data: bytes, cuts: list[int], draw: st.DataObject) -> None:
    damaged = bytearray(data)
    damaged[draw.draw(st.integers(0, len(data) - 1))] ^= 0x10
    assert hadoop_problem(bytes(damaged), hadoop_file(data), *cuts)


@pytest.mark.parametrize(
    ("recorded", "reason"),
    [
        (b"", "is cut"),
        (b"crc", "is cut"),
        (b"crx\0\0\0\2\0", "is not one"),
        (b"crc\0\0\0\0\0", "is not one"),
        (hadoop_file(b"x" * 600)[:-1], "does not fit"),
        (hadoop_file(b"x" * 600)[:-4], "does not fit"),
        (hadoop_file(b"x" * 600) + b"\0", "does not fit"),
    ],
    ids=["empty", "no-head", "other-magic", "no-chunk", "cut", "sum-less", "longer"],
)
def test_a_damaged_hadoop_checksum_file_says_why(recorded: bytes, reason: str) -> None:
    assert reason in hadoop_problem(b"x" * 600, recorded)


def test_a_hadoop_checksum_file_that_claims_huge_chunks_makes_nobody_hold_them() -> None:
    sums = checksums.HadoopSums(lambda offset, length: (b"crc\0" + b"\xff" * 4)[offset : offset + length])
    piece = bytes(1 << 20)
    tracemalloc.start()
    for _ in range(50):
        sums.add(piece)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sums.problem()
    assert peak < 1 << 20


def test_a_content_that_differs_was_changed_and_a_checksum_file_that_differs_says_nothing() -> None:
    recorded = hadoop_file(b"x" * 600)
    assert checksums.was_changed(b"y" * 600, recorded)
    assert not checksums.was_changed(b"x" * 600, recorded[:-1] + bytes([recorded[-1] ^ 1]))
    assert not checksums.was_changed(b"x" * 600, b"crc")
