"""Looking into whole state files: what they claim is refused, and what they hold is never held at once."""

from __future__ import annotations

import json
import struct
import zlib
from itertools import repeat
from pathlib import Path

import google_crc32c
import pytest

from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.spark.releases import release
from airflow_provider_ha.checkpoints.spark.rocksdb import chains
from airflow_provider_ha.checkpoints.spark.state_content import ChecksumMismatchError, ContentCheck
from airflow_provider_ha.checkpoints.spark.state_store import StateFile, StateFileKind, StateStore
from airflow_provider_ha.errors import CheckpointCorruptError
from tests.support.checkpoints.state_files import (
    END,
    LARGE,
    LZ4_END,
    MB,
    kind_of,
    looked_into,
    lz4_block,
    lz4_stream,
    pairs,
    snappy_stream,
    write,
    zip_bomb,
    zip_stream,
)
from tests.support.checkpoints.table_files import table


GROWTH = 20 * MB
ROW = pairs((b"key", b"row"))
METADATA = {"metadata": [b"v1\n{}"]}


def check(path: Path, spark: str = "4.2.0") -> ContentCheck:
    """Look into one file of a store."""
    made = ContentCheck(LocalTree(path.parent.parent), release(spark))
    made(StateFile(f"{path.parent.name}/{path.name}", path.stat().st_size, StateFileKind(kind_of(path))))
    return made


def hadoop_crc(path: Path) -> Path:
    """Write what Hadoop writes beside a file."""
    data = path.read_bytes()
    sums = (struct.pack(">I", zlib.crc32(data[at : at + 512])) for at in range(0, len(data), 512))
    return write(path.parent / f".{path.name}.crc", [b"crc\0\0\0\2\0", *sums])


def spark_crc(path: Path) -> Path:
    """Write what Spark writes beside a file."""
    fields = {"algorithm": "CRC32C", "value": google_crc32c.value(path.read_bytes())}
    text = json.dumps(fields | {"mainFileSize": path.stat().st_size})
    return write(path.parent / f"{path.name}.crc", [text.encode()])


def flipped(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 0xFF
    path.write_bytes(content)


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> int:
    """The memory for a file without records: what the process needs in any case."""
    problem, peak = looked_into(write(tmp_path_factory.mktemp("whole") / "1.delta", [lz4_stream(END)]))
    assert not problem
    return peak


@pytest.mark.parametrize("kind", LARGE)
@pytest.mark.slow
def test_memory_does_not_grow_with_a_file_of_30_megabytes(kind: str, memory: int, tmp_path: Path) -> None:
    name, make = LARGE[kind]
    problem, peak = looked_into(write(tmp_path / name, make(30 * MB)))
    assert not problem
    assert peak - memory < GROWTH


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", LARGE)
def test_memory_does_not_grow_with_a_file_of_200_megabytes(kind: str, memory: int, tmp_path: Path) -> None:
    name, make = LARGE[kind]
    problem, peak = looked_into(write(tmp_path / name, make(200 * MB)))
    assert not problem
    assert peak - memory < GROWTH


def two_gigabytes() -> list[bytes]:
    return [lz4_block(b"x" * 40, unpacked=0x7FFFFFFF)]


def long_record() -> list[bytes]:
    return [lz4_stream(struct.pack(">i", 0x7FFFFFFF) + b"abc")]


def long_lineage() -> list[bytes]:
    return [lz4_stream(b"\0\2v4" + b"\xff\xff" + b"[" * 100)]


def long_snappy_block() -> list[bytes]:
    return [snappy_stream(b"x")[:16] + struct.pack(">I", 0x7FFFFFFF)]


def wide_zstd_window() -> list[bytes]:
    return [b"\x28\xb5\x2f\xfd\x00\xa8\x01\x00\x00"]


def bomb() -> list[bytes]:
    return list(zip_bomb(1100))


def index_out_of_the_file() -> list[bytes]:
    index = b"\0\1\x14k" + b"\xff" * 9 + b"\1" + b"\xff" * 9 + b"\1" + struct.pack("<II", 0, 1)
    return list(table([b"block"], lambda _: index))


CLAIMS = {
    "lz4-block": ("1.delta", two_gigabytes, "claims 2147483647 bytes, its own limit is 32768"),
    "record": ("1.delta", long_record, "2147483647 bytes are claimed at byte 4, 3 are there"),
    "lineage": ("1.changelog", long_lineage, "65535 bytes are claimed at byte 6, 100 are there"),
    "snappy-block": ("1.delta", long_snappy_block, "a block claims 2147483647 bytes, 0 are there"),
    "zstd-window": ("1.delta", wide_zstd_window, "does not decompress"),
    "zip-bomb": ("1.zip", bomb, "unpacks to more than 1140850688 bytes"),
    "sst-index": ("1.sst", index_out_of_the_file, "bytes at byte 18446744073709551615 is claimed"),
}


@pytest.mark.parametrize(
    "claim", [pytest.param(each, marks=[pytest.mark.long] if each == "zip-bomb" else []) for each in CLAIMS]
)
@pytest.mark.slow
def test_a_file_that_claims_absurd_sizes_is_a_finding_and_takes_no_memory(
    claim: str, memory: int, tmp_path: Path
) -> None:
    name, make, reason = CLAIMS[claim]
    problem, peak = looked_into(write(tmp_path / name, make()))
    assert reason in problem
    assert peak - memory < GROWTH


def test_a_zip_whose_inner_metadata_is_huge_is_a_finding(tmp_path: Path) -> None:
    huge = zip_stream({"CURRENT": [b"MANIFEST-1\n"], "metadata": [b"v1\n", *repeat(b"[" * MB, 9)]})
    write(tmp_path / "state/0/0/1.zip", huge)
    (chain,) = chains(StateStore.open(LocalTree(tmp_path), "state/0/0"), 1, None)
    with pytest.raises(CheckpointCorruptError, match="unpacks to more than 8388608 bytes"):
        chain()


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"MANIFEST-1": b"x"}, "its CURRENT names '', which is not in it"),
        ({"CURRENT": b"MANIFEST-2\n", "MANIFEST-1": b"x"}, "its CURRENT names 'MANIFEST-2', which is not in it"),
        ({"CURRENT": b"MANIFEST-1\n", "MANIFEST-1": b""}, "its member MANIFEST-1 is empty"),
    ],
)
def test_a_zip_without_its_manifest_is_not_what_rocksdb_wrote(
    members: dict[str, bytes], reason: str, tmp_path: Path
) -> None:
    path = write(tmp_path / "store/1.zip", zip_stream(METADATA | {name: [data] for name, data in members.items()}))
    with pytest.raises(CheckpointCorruptError, match=reason):
        check(path)


def test_a_zip_may_hold_empty_logs(tmp_path: Path) -> None:
    members = METADATA | {"CURRENT": [b"MANIFEST-1\n"], "MANIFEST-1": [b"x"], "000009.log": [b""]}
    check(write(tmp_path / "store/1.zip", zip_stream(members)))


def test_a_fault_behind_the_terminator_of_the_records_is_none(tmp_path: Path) -> None:
    check(write(tmp_path / "store/1.delta", [lz4_stream(pairs((b"a", b"1")) + END), b"garbage"]))


def test_a_changelog_without_records_that_is_cut_inside_the_end_mark_is_whole(tmp_path: Path) -> None:
    check(write(tmp_path / "store/1.changelog", [lz4_stream(END)[:-5]]))


def test_a_hidden_checksum_counts_for_what_is_read_through_hadoop(tmp_path: Path) -> None:
    path = write(tmp_path / "store/1.sst", table([b"block" * 1000]))
    flipped(hadoop_crc(path), -1)
    with pytest.raises(ChecksumMismatchError, match="hidden checksum"):
        check(path)


def test_a_hidden_checksum_counts_from_the_first_byte_to_the_last_whatever_is_read_first(tmp_path: Path) -> None:
    path = write(tmp_path / "store/1.sst", table([b"block" * 1000] * 200))
    hadoop_crc(path)
    check(path)


@pytest.mark.parametrize(
    ("name", "spark", "compared"),
    [("1.zip", "4.1.0", True), ("1_id.zip", "4.1.0", True), ("1.zip", "4.2.0", True), ("1_id.zip", "4.2.0", False)],
)
def test_a_hidden_checksum_of_a_zip_counts_where_the_release_compares_it(
    tmp_path: Path, name: str, spark: str, compared: bool
) -> None:
    members = METADATA | {"CURRENT": [b"MANIFEST-1\n"], "MANIFEST-1": [b"x"]}
    path = write(tmp_path / "store" / name, zip_stream(members))
    flipped(hadoop_crc(path), -1)
    if compared:
        with pytest.raises(ChecksumMismatchError, match="hidden checksum"):
            check(path, spark)
    else:
        check(path, spark)


def test_a_hidden_checksum_says_nothing_of_a_delta(tmp_path: Path) -> None:
    path = write(tmp_path / "store/1.delta", [lz4_stream(END)])
    flipped(hadoop_crc(path), -1)
    check(path)


def with_end(path: Path, content: bytes, at: int, bits: int) -> Path:
    """Write a changelog with another bit in the block that ends its stream."""
    stream = bytearray(lz4_stream(content))
    stream[len(stream) - len(LZ4_END) + at] ^= bits
    return write(path, [bytes(stream)])


@pytest.mark.parametrize(("at", "bits"), [(0, 0x10), (8, 0x40), (9, 0x10), (13, 0x10), (17, 0x10), (20, 0x10)])
@pytest.mark.parametrize("spark", ["4.0.5", "4.2.0"])
def test_the_end_of_a_changelog_without_records_is_read_in_search_of_its_version(
    tmp_path: Path, at: int, bits: int, spark: str
) -> None:
    """Seen on 4.2.0: each of these bits is "Stream is corrupted" where a partition has changed nothing."""
    empty = with_end(tmp_path / "store/1.changelog", END, at, bits)
    rows = with_end(tmp_path / "store/2.changelog", ROW + END, at, bits)

    with pytest.raises(CheckpointCorruptError):
        check(empty, spark)
    check(empty, "3.5.9")
    check(rows, spark)


def test_a_changelog_without_records_may_be_cut_in_the_end_of_its_stream(tmp_path: Path) -> None:
    whole = lz4_stream(END)

    for left in range(len(whole) - len(LZ4_END), len(whole) + 1):
        check(write(tmp_path / "store" / f"{left}.changelog", [whole[:left]]))


def test_checksums_that_fit_are_no_problem(tmp_path: Path) -> None:
    path = write(tmp_path / "store/1_id.changelog", [lz4_stream(ROW + END), b"unread" * 100_000])
    spark_crc(path)
    check(path)


def test_a_checksum_counts_to_the_last_byte_of_a_file(tmp_path: Path) -> None:
    path = write(tmp_path / "store/1_id.changelog", [lz4_stream(ROW + END), b"unread" * 100_000])
    spark_crc(path)
    flipped(path, -1)
    with pytest.raises(ChecksumMismatchError, match="its CRC32C is"):
        check(path)


def test_an_empty_checksum_counts_where_the_release_says_so(tmp_path: Path) -> None:
    path = write(tmp_path / "store/1_id.changelog", [lz4_stream(END)])
    write(tmp_path / "store/1_id.changelog.crc", [])
    check(path, "4.1.0")
    with pytest.raises(ChecksumMismatchError, match="cannot be read"):
        check(path, "4.2.0")


def test_a_huge_checksum_file_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = write(tmp_path / "store/1_id.changelog", [lz4_stream(END)])
    good = spark_crc(path).read_bytes()
    write(tmp_path / "store/1_id.changelog.crc", [b" " * 100_000, good])
    with pytest.raises(ChecksumMismatchError, match="cannot be read"):
        check(path)


def test_unknown_content_is_reported_and_not_called_corrupt(tmp_path: Path) -> None:
    path = write(tmp_path / "store/1.sst", table([b"block"], index_compression=128))
    assert check(path).not_looked_into == {"store/1.sst": "its index has the unknown compression 128"}


def test_an_archived_log_is_said_not_to_be_looked_into(tmp_path: Path) -> None:
    path = write(tmp_path / "store/1.log", [b"records"])
    assert check(path).not_looked_into == {"store/1.log": "it is an archived log of RocksDB"}
    assert not check(write(tmp_path / "store/2.log", [])).not_looked_into


def test_a_file_is_looked_into_once(tmp_path: Path) -> None:
    path = write(tmp_path / "1.delta", [lz4_stream(pairs((b"a", b"1")))])
    made, file = (
        ContentCheck(LocalTree(tmp_path), release("4.2.0")),
        StateFile("1.delta", path.stat().st_size, StateFileKind.DELTA),
    )
    for _ in range(2):
        with pytest.raises(CheckpointCorruptError, match="ended prematurely"):
            made(file)
        path.unlink(missing_ok=True)
