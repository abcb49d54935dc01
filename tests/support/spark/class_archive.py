"""Spark's classes, loaded and verified once (AppCDS).

A Spark that lives for seconds spends a third of its CPU time in loading classes. The archive is made by a small
streaming query, in 40 s, and made again when Java or PySpark is another one. Drivers with S3A on their class path have
an archive of their class path. Without it, or with one that does not fit the class path, the JVM loads the classes
itself: tests are slower then, and nothing else changes.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path


ROOT = Path(__file__).resolve().parents[3]
_PROGRAM = ROOT / "tests" / "apps" / "archived.py"
# The second compiler costs a Spark that lives for seconds as much as everything else.
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def archive(root: Path = ROOT, added: Sequence[Path] = ()) -> Path | None:
    """Return where the archive of this Java and this PySpark is kept; ``None`` without one of the two.

    :param added: Jars in front of those of PySpark.
    """
    home, spark = os.environ.get("JAVA_HOME"), importlib.util.find_spec("pyspark")
    java = shutil.which("java", path=f"{home}/bin" if home else None)
    if java is None or spark is None or spark.origin is None:
        return None
    parts = [Path(java).resolve(), Path(spark.origin).parent / "jars", *added]
    state = [(str(path), path.stat().st_mtime_ns) for path in parts]
    return root / "build" / "class-archives" / f"{hashlib.sha256(repr(state).encode()).hexdigest()[:16]}.jsa"


def java_options(root: Path = ROOT, added: Sequence[Path] = ()) -> str:
    """Return what a Spark of a test gets on its command line: quick to start, also where that costs time later.

    :param added: Jars in front of those of PySpark.
    """
    file = archive(root, added)
    # An archive that does not fit is no reason for a line in a log that a test reads.
    used = (
        f" -XX:SharedArchiveFile={file} -Xlog:cds=off -Xlog:cds+dynamic=off"
        if file is not None and file.exists()
        else ""
    )
    return _QUICK + used


def make(added: Sequence[Path] = ()) -> None:
    """Make the archive unless it is there; what older releases of Java and PySpark left goes.

    :param added: Jars in front of those of PySpark.
    :raises subprocess.CalledProcessError: Spark could not run the program.
    """
    file = archive(added=added)
    if file is None or file.exists():
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    for old in file.parent.glob("*.jsa"):
        if old != archive():
            old.unlink()
    aside = file.with_suffix(f".{os.getpid()}")
    environment = os.environ | {
        "SPARK_SUBMIT_OPTS": f"{_QUICK} -XX:ArchiveClassesAtExit={aside} -Xlog:cds=off -Xlog:cds+dynamic=off",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    if added:
        environment["PYSPARK_SUBMIT_ARGS"] = f"--driver-class-path {':'.join(map(str, added))} pyspark-shell"
    print(f"archiving Spark's classes{' and those of S3A' if added else ''}, once for this checkout", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, str(_PROGRAM), folder], env=environment, check=True, capture_output=True)
    aside.replace(file)
