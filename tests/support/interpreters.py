"""Pythons of this host: this one, those of pyenv, those on the path."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path


def interpreter(minors: Iterable[int]) -> Path | None:
    """Return a Python 3 with one of the minor versions, the first that is found; ``None`` when there is none."""
    wanted = list(minors)
    code = f"import sys; sys.exit(sys.version_info[:2] not in {[(3, minor) for minor in wanted]})"
    for path in _candidates(wanted):
        if subprocess.run([path, "-c", code], check=False, capture_output=True).returncode == 0:
            return Path(path)
    return None


def _candidates(minors: Iterable[int]) -> Iterator[str]:
    yield sys.executable
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for minor in minors:
        yield from map(str, sorted(versions.glob(f"3.{minor}.*/bin/python3.{minor}")))
        on_path = shutil.which(f"python3.{minor}")
        if on_path:
            yield on_path
