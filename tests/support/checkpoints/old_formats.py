"""Checkpoints of Spark 2.1 to 2.4, WRITTEN FROM THE DESCRIPTION of their formats: no such Spark ran here.

Those releases are made for Java 8. On Java 17, 2.4.8 ends in ``Unsupported class file major version 61`` at the first
batch, and no package registry was found to have a Java 8. So this writes what ``groupBy("key").count()`` over the
files of ``tests.support.spark.corpus`` leaves behind, one file in each batch, after the sources of Spark at the tags
v2.1.3, v2.2.3, v2.3.4 and v2.4.8 (``org.apache.spark.sql.execution.streaming``):

- ``OffsetSeqLog``, ``OffsetSeq.scala`` (``relevantSQLConfs``: nothing in 2.1, then more in each release);
- ``BatchCommitLog`` (2.2, 2.3: ``{}``), ``CommitLog`` (2.4: the watermark); 2.1 has none;
- ``CompactibleFileStreamLog``, ``FileStreamSourceLog``, ``FileStreamSourceOffset``;
- ``state/HDFSBackedStateStoreProvider`` (deltas, ``temp-<number>`` remains) and, for the rows, ``StatefulAggregate``
  and ``StreamingAggregationStateManager`` (format 1 repeats the key in the value; since 2.4 format 2 does not),
  ``UnsafeRow``, ``Murmur3_x86_32`` (seed 42) for the partition of a key.

That this is what they wrote is held by two tests: the checkpoints that the Spark project keeps of these releases
(``tests.support.releases.fixtures``) have the same names and logs, and a Spark of today goes on from these with the
right counts.
"""

from __future__ import annotations

import json
import struct
import uuid
import zlib
from collections import Counter
from pathlib import Path

from tests.support.checkpoints.state_files import END, lz4_stream, pairs
from tests.support.releases.damages import DAMAGES, ReleaseDamage
from tests.support.spark.corpus import rows_of, write_input


RELEASES = ("2.1.3", "2.2.3", "2.3.4", "2.4.8")
BATCHES, PARTITIONS, COMPACT_INTERVAL = 5, 2, 4
_FIRST_TIME = 1_500_000_000_000
_PROVIDER = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
_STREAMING = "spark.sql.streaming"
_NOT_IN_2_1 = {
    "in-flight",
    "commits-last-empty",
    "commits-last-cut",
    "commits-ahead",
    "commits-two-lost",
    "commits-removed",
    "partitions-changed",
    "repartition",
    "stale-timeline",
    # Its newest batch is always executed again: no batch reads the state that it wrote.
    "delta-removed",
    "delta-half",
    "delta-empty",
    "delta-directory",
    "delta-flipped",
    # No pinned conf tells how many partitions there were.
    "partition-removed",
}


def write_checkpoint(release: str, place: Path) -> Path:
    """Write ``input`` and ``checkpoint`` below *place*; return the checkpoint.

    :param release: One of ``RELEASES``.
    """
    checkpoint = place / "checkpoint"
    _put(checkpoint / "metadata", json.dumps({"id": str(uuid.uuid4())}, separators=(",", ":")).encode())
    counts: Counter[str] = Counter()
    for batch in range(BATCHES):
        write_input(place / "input", batch)
        _put(checkpoint / "offsets" / str(batch), _offsets(release, batch))
        _put(checkpoint / "sources" / "0" / _source_name(batch), _source(place / "input", batch))
        counts.update(str(row["key"]) for row in rows_of(batch))
        changed = {str(row["key"]) for row in rows_of(batch)}
        for partition in range(PARTITIONS):
            keys = [key for key in sorted(changed) if partition_of(key) == partition]
            _put(checkpoint / f"state/0/{partition}/{batch + 1}.delta", _delta(release, {k: counts[k] for k in keys}))
        if release >= "2.2":
            _put(checkpoint / "commits" / str(batch), b"v1\n" + _commit(release))
    # What a task that was killed leaves: 2.4 began to write aside under hidden names.
    aside = "temp-4982123746511" if release < "2.4" else ".6.delta.1f0a4c2e-6d0b-4a43-9f13-0f8a8d1f2b11.TID7.tmp"
    (checkpoint / "state/0/0" / aside).write_bytes(b"LZ4Block")
    return checkpoint


def damages_of(release: str) -> list[ReleaseDamage]:
    """Return the damages that can be done to what *release* wrote: 2.1 had no commit log, and pinned nothing."""
    done = (damage for damage in DAMAGES if "hdfs" in damage.shapes)
    return [damage for damage in done if release >= "2.2" or damage.name not in _NOT_IN_2_1]


def _offsets(release: str, batch: int) -> bytes:
    metadata = {"batchWatermarkMs": 0, "batchTimestampMs": _FIRST_TIME + 1000 * batch}
    conf = {"spark.sql.shuffle.partitions": str(PARTITIONS)}
    if release >= "2.3":
        conf[f"{_STREAMING}.stateStore.providerClass"] = _PROVIDER
    if release >= "2.4":
        conf[f"{_STREAMING}.multipleWatermarkPolicy"] = "min"
        conf[f"{_STREAMING}.flatMapGroupsWithState.stateFormatVersion"] = "2"
        conf[f"{_STREAMING}.aggregation.stateFormatVersion"] = "2"
    told = metadata if release < "2.2" else metadata | {"conf": conf}
    return f'v1\n{json.dumps(told, separators=(",", ":"))}\n{{"logOffset":{batch}}}'.encode()


def _commit(release: str) -> bytes:
    return b"{}" if release < "2.4" else b'{"nextBatchWatermarkMs":0}'


def _source_name(entry: int) -> str:
    return f"{entry}.compact" if (entry + 1) % COMPACT_INTERVAL == 0 else str(entry)


def _source(source: Path, entry: int) -> bytes:
    first = 0 if _source_name(entry).endswith("compact") else entry
    lines = [
        {"path": f"file://{source}/{k:03d}.json", "timestamp": (1_700_000_000 + k) * 1000, "batchId": k}
        for k in range(first, entry + 1)
    ]
    return b"v1\n" + "\n".join(json.dumps(line, separators=(",", ":")) for line in lines).encode()


def _delta(release: str, counts: dict[str, int]) -> bytes:
    rows = []
    for key, count in counts.items():
        value = _row(count) if release >= "2.4" else _row(key, count)
        rows.append((_row(key), value))
    return lz4_stream(pairs(*rows) + END)


def _row(*values: str | int) -> bytes:
    """Return an UnsafeRow: a word of null bits, a word for each field, and the texts behind them, padded to words."""
    at, words, texts = 8 + 8 * len(values), [struct.pack("<q", 0)], b""
    for value in values:
        if isinstance(value, int):
            words.append(struct.pack("<q", value))
            continue
        text = value.encode()
        words.append(struct.pack("<q", (at + len(texts)) << 32 | len(text)))
        texts += text.ljust((len(text) + 7) // 8 * 8, b"\0")
    return b"".join(words) + texts


def partition_of(key: str) -> int:
    """Return the partition that Spark puts *key* into: Murmur3 of its bytes, modulo the partitions."""
    data, h1 = key.encode(), 42
    whole = len(data) - len(data) % 4
    words = list(struct.unpack(f"<{whole // 4}I", data[:whole]))
    # Spark mixes each byte that is left as a separate number, with its sign.
    words += [byte if byte < 128 else byte + 0xFFFFFF00 for byte in data[whole:]]
    for word in words:
        k1 = _rotated(word * 0xCC9E2D51 & 0xFFFFFFFF, 15) * 0x1B873593 & 0xFFFFFFFF
        h1 = (_rotated(h1 ^ k1, 13) * 5 + 0xE6546B64) & 0xFFFFFFFF
    h1 ^= len(data)
    h1 = (h1 ^ h1 >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    h1 = (h1 ^ h1 >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    h1 ^= h1 >> 16
    return (h1 - (1 << 32) if h1 >> 31 else h1) % PARTITIONS


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> (32 - bits)) & 0xFFFFFFFF


def _put(path: Path, content: bytes) -> None:
    """Write a file, and Hadoop's hidden checksum beside it: CRC32 of each 512 bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    sums = [zlib.crc32(content[at : at + 512]) for at in range(0, len(content), 512)]
    (path.parent / f".{path.name}.crc").write_bytes(b"crc\0" + struct.pack(f">I{len(sums)}I", 512, *sums))
