"""Jars of Maven's repositories, resolved once per machine and kept in ``build/test-cache``.

Ivy lies among pyspark's jars, so nothing but Java is needed.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest


CACHE = Path(__file__).parents[2] / "build" / "test-cache"
RESOLVE_TIMEOUT = 900  # seconds; the first time fetches up to 100 MB


@dataclass(frozen=True, slots=True)
class Wanted:
    """One module of a repository.

    :param transitive: Whether what it needs is fetched with it.
    """

    organisation: str
    name: str
    revision: str
    transitive: bool = True

    def line(self) -> str:
        """Return it as Ivy reads it."""
        return (
            f'<dependency org="{self.organisation}" name="{self.name}" rev="{self.revision}" '
            f'conf="default->default" transitive="{str(self.transitive).lower()}"/>'
        )


@cache
def jars(name: str, wanted: tuple[Wanted, ...], without: tuple[str, ...] = ()) -> tuple[Path, ...]:
    """Return the jars of *wanted*, sorted; skips the test where they cannot be had.

    :param name: Of the folder in the cache: it changes with what is wanted.
    :param without: Beginnings of the names of jars that are left out: Spark brings them along in its own releases.
    """
    made = CACHE / "jars" / name
    made.parent.mkdir(parents=True, exist_ok=True)
    with (made.parent / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            _resolve(made, wanted, without)
    return tuple(sorted(made.glob("*.jar")))


def _resolve(target: Path, wanted: Sequence[Wanted], without: tuple[str, ...]) -> None:
    import pyspark

    print(f"fetching the jars of {target.name}, once for this machine", flush=True)
    ivy = max((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))
    with tempfile.TemporaryDirectory(prefix="resolve-", dir=target.parent) as folder:
        file = Path(folder) / "ivy.xml"
        dependencies = "".join(one.line() for one in wanted)
        file.write_text(
            '<ivy-module version="2.0"><info organisation="tests" module="jars"/>'
            f'<configurations><conf name="default"/></configurations><dependencies>{dependencies}</dependencies>'
            "</ivy-module>",
            encoding="utf-8",
        )
        command = ["java", "-XX:TieredStopAtLevel=1", "-cp", str(ivy), "org.apache.ivy.Main"]
        command += ["-cache", str(CACHE / "ivy" / "cache"), "-ivy", str(file), "-types", "jar", "bundle"]
        command += ["-retrieve", f"{folder}/jars/[artifact]-[revision].[ext]"]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=RESOLVE_TIMEOUT)
        found = Path(folder) / "jars"
        if done.returncode or not found.exists():
            pytest.skip(f"the jars of {target.name} could not be resolved: {(done.stdout + done.stderr)[-1500:]}")
        for jar in found.iterdir():
            if jar.name.startswith(without):
                jar.unlink()
        shutil.move(found, target)
