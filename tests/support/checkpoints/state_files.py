"""State files made by program, after the descriptions of their formats: of any size, and with any lie in them.

What Spark and RocksDB really wrote is in ``tests.support.spark.corpus``; these are for sizes and claims that no run of
theirs has. ``python -m tests.support.checkpoints.state_files DIRECTORY NAME KIND`` looks into one and says what was
found and how much memory it took.
"""

from __future__ import annotations

import io
import json
import struct
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import repeat
from pathlib import Path

import cramjam
import xxhash
import zstandard

from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from tests.support.checkpoints.table_files import table


LZ4_END = struct.pack("<8sBIII", b"LZ4Block", 0x15, 0, 0, 0)
END = struct.pack(">i", -1)
MB = 1 << 20


def pairs(*items: tuple[bytes, bytes | None]) -> bytes:
    """Return records as the HDFS provider writes them, without their terminator."""
    written = b""
    for key, value in items:
        written += struct.pack(">i", len(key)) + key
        written += struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value
    return written


def lz4_block(content: bytes, *, packed: int | None = None, unpacked: int | None = None, level: int = 5) -> bytes:
    """Return a block as Java's LZ4BlockOutputStream writes it; its header may claim other sizes."""
    block = bytes(cramjam.lz4.compress_block(content, store_size=False))
    total = xxhash.xxh32_intdigest(content, 0x9747B28C) & 0x0FFFFFFF
    claims = len(block) if packed is None else packed, len(content) if unpacked is None else unpacked
    return struct.pack("<8sBIII", b"LZ4Block", 0x20 | level, *claims, total) + block


def lz4_stream(content: bytes) -> bytes:
    """Return a whole stream of LZ4 blocks."""
    blocks = (content[at : at + 32768] for at in range(0, len(content), 32768))
    return b"".join(map(lz4_block, blocks)) + LZ4_END


def snappy_stream(*contents: bytes) -> bytes:
    """Return what snappy-java's SnappyOutputStream writes."""
    blocks = [bytes(cramjam.snappy.compress_raw(content)) for content in contents]
    return b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + b"".join(struct.pack(">i", len(b)) + b for b in blocks)


def lzf_stream(*chunks: bytes) -> bytes:
    """Return what compress-lzf writes for chunks that do not compress."""
    return b"".join(b"ZV\0" + struct.pack(">H", len(chunk)) + chunk for chunk in chunks)


# About 32 KiB of records with keys and values of changing lengths, so that they do not all look alike.
RECORDS = pairs(*((b"key" * (i % 5 + 1), bytes(range(256)) * (i % 3) + b"%d" % i) for i in range(100)))


def _delta(size: int) -> Iterator[bytes]:
    block = lz4_block(RECORDS)
    yield from repeat(block, size // len(block) + 1)
    yield lz4_block(END) + LZ4_END


def _plain_delta(size: int) -> Iterator[bytes]:
    # Nothing compresses: one record as large as all others, so that none may be held.
    body = b"\x5a" * 32768
    count = size // len(body)
    head = pairs((b"key", b""))[:-4] + struct.pack(">i", count * len(body))
    for content in (head, *repeat(body, count), END):
        total = xxhash.xxh32_intdigest(content, 0x9747B28C) & 0x0FFFFFFF
        yield struct.pack("<8sBIII", b"LZ4Block", 0x15, len(content), len(content), total) + content


def _zstd(size: int) -> Iterator[bytes]:
    compressor = zstandard.ZstdCompressor(level=1).compressobj()
    salt = xxhash.xxh3_128_digest
    for number in range(size // 32768):
        value = b"".join(salt(b"%d %d" % (number, part)) for part in range(2048))
        yield compressor.compress(pairs((b"key", value)))
    yield compressor.compress(END) + compressor.flush()


def _snappy(size: int) -> Iterator[bytes]:
    stream = snappy_stream(RECORDS)
    yield stream[:16]
    yield from repeat(stream[16:], size // len(stream) + 1)
    yield snappy_stream(END)[16:]


def _zip(size: int) -> Iterator[bytes]:
    metadata = b"v1\n" + json.dumps({"sstFiles": [], "numKeys": 0}).encode()
    members = {"CURRENT": [b"MANIFEST-000001\n"], "metadata": [metadata]}
    piece = b"".join(xxhash.xxh3_128_digest(b"%d" % part) for part in range(65536))
    yield from zip_stream(members | {"MANIFEST-000001": repeat(piece, size // len(piece) + 1)})


class _Pipe(io.RawIOBase):
    """Something that cannot be gone back in: then sizes follow the content, as Java writes them."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]  # bytes is all that comes
        self.written.append(bytes(data))
        return len(data)

    def taken(self) -> bytes:
        data = b"".join(self.written)
        self.written.clear()
        return data


def zip_stream(members: Mapping[str, Iterable[bytes]]) -> Iterator[bytes]:
    """Yield a zip as Java's ZipOutputStream writes it."""
    pipe = _Pipe()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, pieces in members.items():
            with archive.open(name, "w") as member:
                for piece in pieces:
                    member.write(piece)
                    yield pipe.taken()
    yield pipe.taken()


def zip_bomb(megabytes: int) -> Iterator[bytes]:
    """Yield a zip whose only member unpacks to so many megabytes of nothing."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    nothing = packer.compress(bytes(MB)) + packer.flush(zlib.Z_FULL_FLUSH)
    yield struct.pack("<4sHHHHHIIIHH", b"PK\x03\x04", 20, 8, 8, 0, 0, 0, 0, 0, 10, 0) + b"MANIFEST-1"
    # After a full flush nothing refers back: the same bytes unpack again.
    yield from repeat(nothing, megabytes)
    yield packer.flush()


def _table(size: int) -> Iterator[bytes]:
    yield from table(repeat(b"\x5a" * 4096, size // 4101 + 1))


LARGE: dict[str, tuple[str, Callable[[int], Iterator[bytes]]]] = {
    "lz4": ("1.delta", _delta),
    "one-record": ("1.snapshot", _plain_delta),
    "zstd": ("1.delta", _zstd),
    "snappy": ("1.delta", _snappy),
    "zip": ("1.zip", _zip),
    "sst": ("1.sst", _table),
}


def write(path: Path, pieces: Iterable[bytes]) -> Path:
    """Write *pieces* to a file and return it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.writelines(pieces)
    return path


def kind_of(path: Path) -> str:
    """Return what a state file is by its name."""
    return path.suffix.removeprefix(".")


def looked_into(path: Path) -> tuple[str, int]:
    """Look into a state file in a separate process; returns what is wrong with it, and the peak of memory."""
    command = [
        sys.executable,
        "-m",
        "tests.support.checkpoints.state_files",
        str(path.parent),
        path.name,
        kind_of(path),
    ]
    root = Path(__file__).parents[3]
    run = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600, cwd=root)
    problem, peak = json.loads(run.stdout)
    return str(problem), int(peak)


def main(directory: Path, name: str, kind: str) -> None:
    """Look into one file."""
    from airflow_provider_ha.checkpoints.spark.releases import release
    from airflow_provider_ha.checkpoints.spark.state_content import ContentCheck
    from airflow_provider_ha.checkpoints.spark.state_store import StateFile, StateFileKind
    from airflow_provider_ha.errors import CheckpointCorruptError

    check, problem = ContentCheck(LocalTree(directory), release("4.2.0")), ""
    try:
        check(StateFile(name, (directory / name).stat().st_size, StateFileKind(kind)))
    except CheckpointCorruptError as error:
        problem = error.reason
    # The usage that the system reports for a process begins with that of the process that started it: this does not.
    status = Path("/proc/self/status").read_text()
    peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    print(json.dumps([problem or check.not_looked_into.get(name, ""), peak * 1024]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
