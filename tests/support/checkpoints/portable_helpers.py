"""What tests of portable savepoints share: a checkpoint made by hand, and archives as an enemy would make them."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterable
from pathlib import Path

from airflow_provider_ha.checkpoints.model import Savepoint
from airflow_provider_ha.checkpoints.store.savepoints.creation import take
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_directory import DirectoryLayout
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_layout import SavepointSource


QUERY = "words"


def write_batch(directory: Path, batch: int) -> None:
    """Plan and commit a batch of a stateless query, as Spark writes it."""
    meta = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 1_700_000_000_000 + batch, "conf": {}})
    for log, text in (
        ("offsets", f'v1\n{meta}\n{{"topic":{{"0":{batch}}}}}'),
        ("commits", 'v1\n{"nextBatchWatermarkMs":0}'),
    ):
        (directory / log).mkdir(parents=True, exist_ok=True)
        (directory / log / str(batch)).write_text(text)


def checkpoint(directory: Path, batches: Iterable[int] = range(3)) -> Path:
    """Make a checkpoint of a stateless query and return it."""
    directory.mkdir(parents=True)
    (directory / "metadata").write_text('{"id":"9b2d3f0a-6f0c-4a7c-9d5e-0a1b2c3d4e5f"}')
    for batch in batches:
        write_batch(directory, batch)
    return directory


def reading_files(directory: Path, inputs: Iterable[tuple[str, int]]) -> Path:
    """Make a checkpoint of a stateless query whose batch k has read file k of *inputs*.

    :param inputs: URI of each file, and when it was changed last, in milliseconds since 1970.
    """
    read = list(inputs)
    checkpoint(directory, range(len(read)))
    (directory / "sources" / "0").mkdir(parents=True)
    for batch, (path, timestamp) in enumerate(read):
        offsets = directory / "offsets" / str(batch)
        offsets.write_text("\n".join([*offsets.read_text().splitlines()[:2], json.dumps({"logOffset": batch})]))
        line = json.dumps({"path": path, "timestamp": timestamp, "batchId": batch})
        (directory / "sources" / "0" / str(batch)).write_text(f"v1\n{line}")
    return directory


def changed_at(path: Path) -> int:
    """Return when a file was changed last, as Spark notes it."""
    return path.stat().st_mtime_ns // 1_000_000


def savepoint(place: Path) -> tuple[Path, Savepoint]:
    """Make a savepoint of such a checkpoint below *place*."""
    live = checkpoint(place / "live" / QUERY)
    return place / "sp", take([SavepointSource(query=QUERY, directory=live)], DirectoryLayout(place / "sp"))


def members_of(directory: Path, made: Savepoint) -> list[tuple[tarfile.TarInfo, bytes]]:
    """Return what belongs into an archive of a savepoint, manifest first."""
    contents = [("manifest.json", made.to_bytes())]
    contents += [(name, (directory / name).read_bytes()) for name in sorted(made.files)]
    return [(member(name, size=len(data)), data) for name, data in contents]


def member(name: str, *, size: int = 0, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    """Return the header of a member that may be anything."""
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = size, kind, link
    return info


def archive(
    path: Path, members: Iterable[tuple[tarfile.TarInfo, bytes]], *, form: int = tarfile.USTAR_FORMAT, mode: str = "w"
) -> Path:
    """Write an archive of any members with Python's own tarfile."""
    with tarfile.open(path, mode, format=form) as writer:  # type: ignore[call-overload]  # modes of a parameter
        for info, data in members:
            writer.addfile(info, io.BytesIO(data))
    return path


def names_in(directory: Path) -> list[str]:
    """Return the names in a directory, hidden ones included."""
    return sorted(path.name for path in directory.iterdir())


def all_names(directory: Path) -> list[str]:
    """Return everything below a directory, hidden names included."""
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))


def steps_survived(program: str, what: str, place: Path) -> int:
    """Run a program that kills its children before each step; return how many steps there were.

    :param program: Its file; it ends with another code than 0 when a kill left something wrong.
    """
    done = subprocess.run(
        [sys.executable, program, what, str(place)],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return int(done.stdout)
