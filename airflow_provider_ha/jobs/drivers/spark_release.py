"""Spark of a driver: installed release, and the location of its executors.

``pyspark`` has the jars and all of Spark's Python files; ``pyspark-client``, which Airflow's Spark provider requires,
has a part of the same Python files. Both are installed into the same directory, and the later one overwrites files:
Python files may then meet jars or other Python files from another release.

Executors of ``local`` are threads of the driver's JVM, and executors of ``local-cluster`` its child processes. A
standalone, YARN or Kubernetes executor is a process on another host: it may run for minutes after the death of its
driver, and a task that writes through ``foreachBatch`` then overlaps with the same batch in the next epoch.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.machinery import PathFinder
from importlib.metadata import distributions
from pathlib import Path

from airflow_provider_ha._version import __version__
from airflow_provider_ha.errors import ConfigurationError


# The forms that ``SparkContext`` accepts: threads, or executors, cores and megabytes.
_OF_SPARK = re.compile(r"local|local\[(\*|[1-9]\d*)(\s*,\s*\d+)?\]|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]")
_LOCAL = re.compile(r"local(-cluster)?(\[[^\]]*\])?")
_ALMOST_LOCAL = re.compile(r"local.*", re.DOTALL)


def is_local(master: str) -> bool:
    """Return whether every executor of *master* belongs to the driver's JVM or its child processes."""
    return _LOCAL.fullmatch(master) is not None


def is_impossible(master: str) -> bool:
    """Return whether *master* has a local form unknown to Spark, so that every driver would fail."""
    return _ALMOST_LOCAL.fullmatch(master) is not None and _OF_SPARK.fullmatch(master) is None


def check_possible(master: str) -> None:
    """Refuse a master unknown to Spark.

    :raises ConfigurationError: Spark does not know the master.
    """
    if is_impossible(master):
        raise ConfigurationError(
            f"Spark knows no master {master!r}",
            next_step="Use local[N] or local[*], with a number of threads, or local-cluster[executors,cores,megabytes]",
        )


def remote_reason(master: str) -> str:
    """Return the reason for refusing a remote *master*, as the message of an error."""
    return (
        f"the Spark master is {master!r}: its executors run on other hosts, where their death cannot be "
        "proven before a recovery starts, so two attempts could write simultaneously"
    )


REMOTE_NEXT_STEP = (
    "Use local[...], or allow it by name (allow_remote_executors=True of the operator, --allow-remote-executors of the "
    "command) if the sinks tolerate a second writer"
)


OLDEST, NEWEST = (4, 1), (4, 3)  # of drivers; checkpoints of older releases can be read
RANGE = "4.1 to 4.3"
_VERSION = re.compile(r"__version__[^=]*=\s*['\"]([^'\"]+)")
_CORE = re.compile(r"spark-core_[\d.]+-(.+)\.jar")
_RELEASE = re.compile(r"\d+\.\d+\.\d+")
_FORCED = "pip install --force-reinstall --no-deps"


@dataclass(frozen=True, slots=True)
class InstalledSpark:
    """Releases of the parts of an installed Spark; ``None`` for a missing part.

    :param home: Directory of pyspark.
    :param package: Release of the distribution ``pyspark``.
    :param client: Release of the distribution ``pyspark-client``.
    :param files: Release of the Python files, from ``pyspark/version.py``.
    :param jars: Release of the jars.
    """

    home: Path | None = None
    package: str | None = None
    client: str | None = None
    files: str | None = None
    jars: str | None = None


def installed_spark(path: Sequence[str] | None = None) -> InstalledSpark:
    """Inspect the installed Spark, without importing any of its modules.

    :param path: Directories to search; by default this interpreter's path.
    """
    where = None if path is None else list(path)
    found = PathFinder.find_spec("pyspark", where)
    home = Path(found.origin).parent if found is not None and found.origin is not None else None
    return InstalledSpark(
        home=home,
        package=_distribution("pyspark", where),
        client=_distribution("pyspark-client", where),
        files=_of_files(home) if home else None,
        jars=_of_jars(home) if home else None,
    )


def find_spark_home(configured: Path | None) -> Path:
    """Return the Spark whose ``bin/spark-submit`` starts the driver: *configured*, else the installed pyspark's.

    :raises ConfigurationError: Spark is missing, mixed from two releases, or unsupported.
    """
    if configured is None:
        spark = installed_spark()
        check_one_release(spark)
        if spark.home is None or (spark.client and not spark.package):
            what = "only pyspark-client, which has no spark-submit," if spark.client else "no pyspark"
            version = f" and pyspark=={spark.client}" if spark.client else ""
            raise ConfigurationError(
                f"{what} is installed for the interpreter that starts drivers",
                next_step=f"Install airflow-provider-ha[spark]{version} there or set SPARK_HOME",
            )
        configured = spark.home
    if not (configured / "bin" / "spark-submit").is_file():
        raise ConfigurationError(
            f"there is no bin/spark-submit in {str(configured)!r}",
            next_step="Correct SPARK_HOME, or the engine option 'spark_home'",
        )
    check_supported(configured)
    return configured


def check_one_release(spark: InstalledSpark) -> None:
    """Refuse a Spark that is mixed from two releases, or has lost a part.

    :raises ConfigurationError: Spark is mixed or incomplete; the message has the releases and a command that repairs
        it.
    """
    if spark.package and spark.client and _release(spark.package) != _release(spark.client):
        raise ConfigurationError(
            f"pyspark {spark.package} and pyspark-client {spark.client} are both installed in {str(spark.home)!r}: "
            "they overwrite each other's files, so this Spark is a mixture of two releases",
            next_step=(
                "Install one release of both on every host that submits jobs or runs drivers: "
                f"{_FORCED} pyspark=={spark.client} pyspark-client=={spark.client}"
            ),
        )
    if spark.package and not spark.files:
        raise ConfigurationError(
            f"pyspark {spark.package} is installed, but its Python files are missing: the removal of pyspark-client "
            "removes them too",
            next_step=f"Install pyspark again: {_FORCED} pyspark=={spark.package}",
        )
    if spark.files and spark.jars and _release(spark.files) != _release(spark.jars):
        raise ConfigurationError(
            f"the Python files of Spark in {str(spark.home)!r} are of release {spark.files}, its jars of release "
            f"{spark.jars}: another package has overwritten files of Spark",
            next_step=f"Install pyspark again: {_FORCED} pyspark=={spark.jars}",
        )


def check_supported(home: Path) -> None:
    """Refuse a Spark whose release is not supported for drivers. Spark of an unknown release passes.

    :raises ConfigurationError: The release is too old or too new.
    """
    release = release_of(home)
    if release is not None and not OLDEST <= release[:2] <= NEWEST:
        raise ConfigurationError(
            f"airflow-provider-ha {__version__} runs drivers on Spark {RANGE}; in {str(home)!r} is Spark "
            f"{'.'.join(map(str, release))}",
            next_step="Install another release there, or name another directory as SPARK_HOME or as the engine option "
            "spark_home",
        )


def release_of(home: Path) -> tuple[int, ...] | None:
    """Return the release of the Spark in a directory, by its jars; ``None`` if they do not name it."""
    match = _RELEASE.match(_of_jars(home) or "")
    return tuple(map(int, match.group().split("."))) if match else None


def _distribution(name: str, path: list[str] | None) -> str | None:
    found = distributions(name=name) if path is None else distributions(name=name, path=path)
    return next((item.version for item in found), None)


def _of_files(home: Path) -> str | None:
    try:
        match = _VERSION.search((home / "version.py").read_text(encoding="utf-8"))
    except OSError:
        return None
    return match.group(1) if match else None


def _of_jars(home: Path) -> str | None:
    matches = (_CORE.fullmatch(jar.name) for jar in sorted((home / "jars").glob("spark-core_*.jar")))
    return next((match.group(1) for match in matches if match), None)


def _release(version: str) -> str:
    """Return the version without the suffixes of builds: ``4.3.0.dev0`` and ``4.3.0-SNAPSHOT`` are the same release."""
    match = _RELEASE.match(version)
    return match.group() if match else version
