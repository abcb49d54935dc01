"""The wheel, built once: ``python -m tests.support.wheel`` (``make wheel``); what tests install is this one.

It lies in ``dist`` with the digest of what it was made from, and is built again when that has changed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path


ROOT = Path(__file__).parents[2]
GIVEN = "AIRFLOW_PROVIDER_HA_WHEEL"  # a wheel that was built elsewhere and is to be tested

_SOURCES = ("pyproject.toml", "README.md", "LICENSE", "airflow_provider_ha", "dags", "java")


def wheel(root: Path = ROOT) -> Path:
    """Return the wheel of what is in the repository now; of several processes that ask for it one builds it."""
    given = os.environ.get(GIVEN)
    if given:
        return Path(given)
    place = root / "dist"
    place.mkdir(exist_ok=True)
    with (place / ".lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _built(root, place)


def _built(root: Path, place: Path) -> Path:
    digest, stamp = digest_of(root), place / ".digest"
    found = sorted(place.glob("*.whl"))
    if len(found) == 1 and stamp.exists() and stamp.read_text(encoding="utf-8") == digest:
        return found[0]
    for old in found:
        old.unlink()
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(place), str(root)]
    subprocess.run(build, check=True, env={**os.environ, "SPARK_HA_COMPONENT_REQUIRED": "1"})
    stamp.write_text(digest, encoding="utf-8")
    (made,) = place.glob("*.whl")
    return made


def digest_of(root: Path) -> str:
    """Return the digest of all that goes into the wheel."""
    told = hashlib.sha256()
    for file in _files(root):
        told.update(f"{file.relative_to(root)}\0".encode() + hashlib.sha256(file.read_bytes()).digest())
    return told.hexdigest()


def _files(root: Path) -> Iterator[Path]:
    for source in (root / name for name in _SOURCES):
        inside = (path for path in sorted(source.rglob("*")) if _counts(path))
        yield from (inside if source.is_dir() else (source,))


def _counts(path: Path) -> bool:
    """Whether it is a source: neither compiled nor the jar, which is made from ``java``."""
    return path.is_file() and "__pycache__" not in path.parts and path.suffix != ".jar"


if __name__ == "__main__":
    print(wheel())
