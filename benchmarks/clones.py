"""Large checkpoints, made by program from small ones that a real Spark wrote.

Invariant: what comes out is a checkpoint that Spark would start from: logs, source log with its compactions, state and
hidden checksums fit together.
"""

from __future__ import annotations

import json
import shutil
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

from tests.support.checkpoints.state_files import write
from tests.support.spark import corpus


# What the corpus sets, so that its few batches hold compactions and snapshots.
_EVERY = 4


def cloned(shape: str, place: Path, partitions: int) -> Path:
    """Copy a real checkpoint and give it more partitions, each a copy of its first one."""
    made = corpus.checkpoint_copy(shape, place)
    for log in (made / "offsets").iterdir():
        if not log.name.startswith("."):
            version, meta, *sources = log.read_text().split("\n")
            fields = json.loads(meta)
            fields["conf"]["spark.sql.shuffle.partitions"] = str(partitions)
            log.write_text("\n".join([version, json.dumps(fields), *sources]))
            write(log.parent / f".{log.name}.crc", hadoop_sums(log))
    metadata = made / "state/0/_metadata/metadata"
    head, body = metadata.read_text().split("\n", 1)
    operator = json.loads(body)
    for store in operator["stateStoreInfo"]:
        store["numPartitions"] = partitions
    metadata.write_text(f"{head}\n{json.dumps(operator)}")
    shutil.rmtree(made / "state/0/1")
    for partition in range(1, partitions):
        shutil.copytree(made / "state/0/0", made / f"state/0/{partition}")
    return made


def lengthened(checkpoint: Path, versions: int) -> None:
    """Let a checkpoint of the HDFS provider go on until it has *versions* batches, none purged: each reads one file."""
    recorded = corpus.BATCHES
    for batch in range(recorded, versions):
        offsets = (checkpoint / f"offsets/{recorded - 1}").read_text().rpartition("\n")[0]
        _put(checkpoint / f"offsets/{batch}", f'{offsets}\n{{"logOffset":{batch}}}')
        _put(checkpoint / f"commits/{batch}", (checkpoint / f"commits/{recorded - 1}").read_text())
    _lengthen_source(checkpoint / "sources/0", versions)
    for store in (checkpoint / "state/0").iterdir():
        if store.name.isdigit():
            _lengthen_store(store, versions)


def hadoop_sums(path: Path) -> Iterator[bytes]:
    """Yield what Hadoop writes beside a file."""
    yield b"crc\0" + struct.pack(">I", 512)
    with path.open("rb") as file:
        while chunk := file.read(512):
            yield struct.pack(">I", zlib.crc32(chunk))


def _lengthen_source(log: Path, versions: int) -> None:
    entry = json.loads((log / "8").read_text().splitlines()[1])
    shutil.rmtree(log)
    log.mkdir()
    lines: list[str] = []
    for batch in range(versions):
        lines.append(json.dumps(entry | {"path": f"{entry['path']}.{batch}", "batchId": batch}))
        compact = (batch + 1) % _EVERY == 0
        _put(
            log / (f"{batch}.compact" if compact else str(batch)),
            "\n".join(["v1", *(lines if compact else lines[-1:])]),
        )


def _lengthen_store(store: Path, versions: int) -> None:
    last = corpus.BATCHES
    for version in range(last + 1, versions + 1):
        _copy(store / f"{last}.delta", store / f"{version}.delta")
        if version % _EVERY == 0:
            _copy(store / f"{last - 1}.snapshot", store / f"{version}.snapshot")


def _put(path: Path, text: str) -> None:
    path.write_text(text)
    write(path.parent / f".{path.name}.crc", hadoop_sums(path))


def _copy(source: Path, target: Path) -> None:
    shutil.copyfile(source, target)
    shutil.copyfile(source.parent / f".{source.name}.crc", target.parent / f".{target.name}.crc")
