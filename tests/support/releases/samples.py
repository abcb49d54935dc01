"""A few of the recorded checkpoints, small enough for the repository: the quick suite reads what each release wrote.

``python -m tests.support.releases.samples RELEASE…`` packs them out of the cache into ``tests/data/checkpoints``.
Nothing is changed but the absolute paths in the logs of file sources and sinks, which name ``/recorded``, and their
hidden checksums with them.
"""

from __future__ import annotations

import io
import struct
import sys
import tarfile
import zlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from tests.support.releases.corpus import place_of, recorded, shapes_of
from tests.support.releases.installed import BY_VERSION, ROOT, Spark
from tests.support.releases.shapes import Shape


FOLDER = ROOT / "tests" / "data" / "checkpoints"
PLACE = "/recorded"


def samples() -> list[str]:
    """Return the releases that there are samples of."""
    return sorted(path.name.removesuffix(".tar.xz") for path in FOLDER.glob("*.tar.xz"))


def unpack(release: str, target: Path) -> dict[str, Path]:
    """Unpack what *release* recorded below *target*; return shape -> checkpoint."""
    write_files(FOLDER / f"{release}.tar.xz", target)
    return {path.name: path / "checkpoint" for path in sorted(target.iterdir())}


def write_files(archive: Path, target: Path) -> None:
    """Write what is in an archive of this repository below *target*. It is unpacked once: hundreds of tests ask."""
    for name, content in _contents(archive).items():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


@cache
def _contents(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as opened:
        return {member.name: found.read() for member in opened if (found := opened.extractfile(member)) is not None}


def pack(spark: Spark) -> Path:
    """Pack the core of what *spark* recorded."""
    core = [shape for shape in shapes_of(spark) if shape.core]
    recorded(spark, core)
    FOLDER.mkdir(parents=True, exist_ok=True)
    return write_archive(FOLDER / f"{spark.version}.tar.xz", spark, core)


def write_archive(path: Path, spark: Spark, shapes: Iterable[Shape]) -> Path:
    """Pack the files of *shapes* that *spark* recorded into *path*, and return it."""
    with tarfile.open(path, "w:xz", preset=9) as archive:
        for shape in shapes:
            for name, content in sorted(files_of(spark, shape).items()):
                member = tarfile.TarInfo(f"{shape.name}/{name}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return path


def files_of(spark: Spark, shape: Shape) -> dict[str, bytes]:
    """Return the checkpoint and the sink's log: path relative to the shape's place -> content."""
    place = place_of(spark, shape)
    found = {
        str(path.relative_to(place)): path.read_bytes()
        for part in ("checkpoint", "out/_spark_metadata")
        for path in (place / part).rglob("*")
        if path.is_file()
    }
    own = str(place).encode()
    for name in [name for name, content in found.items() if own in content]:
        found[name] = found[name].replace(own, f"{PLACE}/{shape.name}".encode())
        folder, _, last = name.rpartition("/")
        if f"{folder}/.{last}.crc" in found:
            found[f"{folder}/.{last}.crc"] = _hidden_crc(found[name])
    return found


def _hidden_crc(content: bytes) -> bytes:
    """Return Hadoop's checksum file: the CRC32 of each 512 bytes."""
    sums = [zlib.crc32(content[at : at + 512]) for at in range(0, len(content), 512)]
    return b"crc\0" + struct.pack(f">I{len(sums)}I", 512, *sums)


if __name__ == "__main__":
    for version in sys.argv[1:]:
        packed = pack(BY_VERSION[version])
        print(packed, packed.stat().st_size)
