"""Real file systems that are full, for tests of outages of storage: a tmpfs of some MiB, or of some inodes."""

from __future__ import annotations

import errno
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from airflow_provider_ha.clock import new_id
from airflow_provider_ha.config import HaConfig
from tests.conftest import FAST


@dataclass
class SmallDisk:
    """A mounted file system that a test fills and empties.

    :param path: Where it is mounted.
    """

    path: Path
    _ballast: list[Path] = field(default_factory=list)

    def fill(self) -> None:
        """Take every free byte, the last page included."""
        ballast = self.path / f".ballast-{len(self._ballast)}"
        self._ballast.append(ballast)
        with ballast.open("wb", buffering=0) as file:
            _until_full(lambda: file.write(bytes(4096)))

    def fill_inodes(self) -> None:
        """Take every free inode."""
        ballast = self.path / f".ballast-{len(self._ballast)}"
        ballast.mkdir()
        self._ballast.append(ballast)
        names = (ballast / str(number) for number in range(1_000_000))
        _until_full(lambda: next(names).touch())

    def grow(self, size: str) -> None:
        """Give the file system another size, as ``mount`` understands it."""
        subprocess.run(["mount", "-o", f"remount,size={size}", str(self.path)], check=True)

    def free(self) -> None:
        """Give back what was taken."""
        for ballast in self._ballast:
            for path in [*ballast.iterdir()] if ballast.is_dir() else [ballast]:
                path.unlink()
            if ballast.is_dir():
                ballast.rmdir()
        self._ballast.clear()


def config_on(disk: SmallDisk, zookeeper: str, tmp_path: Path) -> HaConfig:
    """Return a cluster whose work root is *disk*; its storage lies beside it."""
    return HaConfig.build(
        zookeeper=zookeeper,
        storage_root=f"file://{tmp_path}/storage",
        work_root=disk.path.as_uri(),
        cluster_id=f"c-{new_id()[:12]}",
        timings=FAST,
    )


@contextmanager
def small_disk(path: Path, *, size: str = "16m", inodes: int = 10_000) -> Iterator[SmallDisk]:
    """Mount a tmpfs at *path*; the test is skipped where mounting is not permitted."""
    path.mkdir(parents=True, exist_ok=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size},nr_inodes={inodes}", "tmpfs", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip(f"a file system cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield SmallDisk(path)
    finally:
        # Lazily: a process of the test that is still ending may have a file open.
        subprocess.run(["umount", "--lazy", str(path)], check=True)


def _until_full(step: Callable[[], object]) -> None:
    try:
        while True:
            step()
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
