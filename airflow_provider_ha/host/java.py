"""Java and ZooKeeper's jars on this machine, or one sentence on the missing part.

PySpark ships a complete ZooKeeper server among its jars, so a host that runs Spark can run the embedded server.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from airflow_provider_ha.errors import ConfigurationError


OLDEST_JAVA = 17  # required by Spark 4; ZooKeeper 3.9 accepts older releases
_JAR_PATTERNS = ("zookeeper-*", "netty-*", "metrics-core-*", "snappy-java-*", "slf4j-api-*", "log4j-*")


def find_java(environment: Mapping[str, str] | None = None) -> str:
    """Return the path of a recent enough Java: that of ``JAVA_HOME``, else the one on ``PATH``.

    :param environment: Environment of the process that will run it; by default that of this process.
    :raises ConfigurationError: Java is missing, or too old.
    """
    values = os.environ if environment is None else environment
    home = values.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin" if home else values.get("PATH"))
    if java is None:
        place = f"JAVA_HOME={home}" if home else "PATH"
        raise ConfigurationError(
            f"no Java was found by {place}", next_step=f"Install Java {OLDEST_JAVA} and set JAVA_HOME to it"
        )
    version = _version_of(java, Path(java).stat().st_mtime_ns)
    if version is None or version < OLDEST_JAVA:
        raise ConfigurationError(
            f"{java} is Java {version or 'of an unknown version'}, at least {OLDEST_JAVA} is needed",
            next_step=f"Install Java {OLDEST_JAVA} and set JAVA_HOME to it",
        )
    return java


@lru_cache
def _version_of(java: str, _changed_at: int) -> int | None:
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=60)
    return java_version(answer.stderr + answer.stdout)


def java_version(text: str) -> int | None:
    """Return the major version in the answer of ``java -version`` (1.8 is 8); ``None`` if it contains no version."""
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found.group(1)) if found else None


def find_jars(jars: Path | None) -> list[Path]:
    """Return the jars that a ZooKeeper server needs.

    :param jars: Directory to search; by default ``SPARK_HOME/jars``, then the jars of the installed PySpark.
    :raises ConfigurationError: The directory does not include ZooKeeper.
    """
    tried = [jars] if jars else _usual_places()
    for place in tried:
        if next(place.glob("zookeeper-[0-9]*.jar"), None):
            return sorted(jar for pattern in _JAR_PATTERNS for jar in place.glob(f"{pattern}.jar"))
    raise ConfigurationError(
        f"no ZooKeeper jar was found (looked in {', '.join(map(str, tried)) or 'no place at all'})",
        next_step="Install pyspark in this environment or set SPARK_HOME",
    )


def _usual_places() -> list[Path]:
    places = []
    if home := os.environ.get("SPARK_HOME"):
        places.append(Path(home) / "jars")
    found = importlib.util.find_spec("pyspark")  # finds the package without importing it, which takes a second
    if found and found.submodule_search_locations:
        places += [Path(location) / "jars" for location in found.submodule_search_locations]
    return places


def utf8_locale(inherited: Mapping[str, str]) -> dict[str, str]:
    """Return variables that make a JVM use this Python's file names; empty if its locale already does.

    In the locale C, Python still writes names as UTF-8 (PEP 540), and a JVM replaces non-ASCII characters: it would
    work in another directory.
    """
    locale = next(filter(None, (inherited.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG"))), "C")
    python = sys.getfilesystemencoding().lower()
    return {} if python != "utf-8" or "utf" in locale.lower() else {"LC_ALL": "C.UTF-8"}
