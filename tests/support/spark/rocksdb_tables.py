"""Tables that RocksDB itself writes, in every format that its library knows: one JVM makes all of them.

The library is the one that comes with pyspark. ``python tests/support/spark/rocksdb_tables.py DIRECTORY`` is that
program.
"""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import product
from pathlib import Path


CHECKSUMS = ("kCRC32c", "kxxHash", "kxxHash64", "kXXH3")
COMPRESSIONS = ("NO", "SNAPPY", "ZLIB", "BZLIB2", "LZ4", "LZ4HC", "ZSTD")
INDEXES = ("kBinarySearch", "kHashSearch", "kTwoLevelIndexSearch", "kBinarySearchWithFirstKey")
VERSIONS = (2, 3, 4, 5, 6)

# (format version, checksum, compression, index)
TABLES = (
    *product(VERSIONS, CHECKSUMS, ("LZ4",), ("kBinarySearch",)),
    *product((5,), ("kXXH3",), COMPRESSIONS, ("kBinarySearch",)),
    *product((3, 5, 6), ("kCRC32c",), ("LZ4",), INDEXES),
)


def name_of(table: tuple[int, str, str, str]) -> str:
    """Return the name of the file of a table."""
    return "-".join(map(str, table)) + ".sst"


def make(directory: Path) -> None:
    """Make all tables in *directory*."""
    environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, __file__, str(directory)]
    subprocess.run(command, check=True, timeout=240, env=environment, capture_output=True)


def main(directory: Path) -> None:
    """Write every table, and one without checksums."""
    from pyspark.java_gateway import launch_gateway  # tests that only read the tables import this module

    gateway = launch_gateway()  # type: ignore[no-untyped-call]  # pyspark has no types for it
    rocksdb = gateway.jvm.org.rocksdb
    rocksdb.RocksDB.loadLibrary()
    for table in {*TABLES, (5, "kNoChecksum", "LZ4", "kBinarySearch")}:
        version, checksum, compression, index = table
        layout = (
            rocksdb.BlockBasedTableConfig()
            .setFormatVersion(version)
            .setChecksumType(getattr(rocksdb.ChecksumType, checksum))
            .setIndexType(getattr(rocksdb.IndexType, index))
            .setFilterPolicy(rocksdb.BloomFilter(10.0))
            .setPartitionFilters(index == "kTwoLevelIndexSearch")
            .setMetadataBlockSize(256)
            .setBlockSize(512)
        )
        options = rocksdb.Options().setTableFormatConfig(layout).useFixedLengthPrefixExtractor(2)
        options.setCompressionType(getattr(rocksdb.CompressionType, f"{compression}_COMPRESSION"))
        writer = rocksdb.SstFileWriter(rocksdb.EnvOptions(), options)
        writer.open(str(directory / name_of(table)))
        for number in range(200):
            writer.put(b"%02d-key-%05d" % (number // 20, number), b"value %d " % (number * 7919) * 4)
        writer.finish()
        writer.close()
    gateway.shutdown()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
