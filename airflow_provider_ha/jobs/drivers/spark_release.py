"""Spark of a driver: installed release, and the location of its executors.

``pyspark`` holds the jars and all of Spark's Python; ``pyspark-client``, which the Spark provider of Airflow requires,
holds a part of the same Python files. Both are installed into one directory, and the later one overwrites: Python
files of one release then meet jars, or other Python files, of another.

Executors of ``local`` are threads of that JVM; those of ``local-cluster`` are its child processes. A standalone, YARN
or Kubernetes executor is a process of another host: it goes on for minutes after its driver has died, and a task that
writes through ``foreachBatch`` then meets the next epoch, which executes the same batch.
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


# As ``SparkContext`` reads them: threads, or executors, cores and megabytes.
_OF_SPARK = re.compile(r"local|local\[(\*|[1-9]\d*)(\s*,\s*\d+)?\]|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]")
_LOCAL = re.compile(r"local(-cluster)?(\[[^\]]*\])?")


def is_local(master: str) -> bool:
    """Return whether every executor of *master* is the driver's JVM or a descendant of it."""
    return _LOCAL.fullmatch(master) is not None


def is_impossible(master: str) -> bool:
    """Return whether Spark has no local master of that form: each driver would fail with it."""
    return master.startswith("local") and _OF_SPARK.fullmatch(master) is None


def check_possible(master: str) -> None:
    """Refuse a master that Spark does not know.

    :raises ConfigurationError: It is one.
    """
    if is_impossible(master):
        raise ConfigurationError(
            f"Spark knows no master {master!r}",
            next_step="Use local[N] or local[*], with a number of threads, or local-cluster[executors,cores,megabytes]",
        )


def remote_reason(master: str) -> str:
    """Return why a remote *master* is refused, as the message of an error."""
    return (
        f"the Spark master is {master!r}: its executors run on other hosts, where nothing proves that they are dead "
        "before a recovery starts, so two attempts can write at one time"
    )


REMOTE_NEXT_STEP = (
    "Use local[...], or allow it by name (allow_remote_executors=True of the operator, --allow-remote-executors of the "
    "command) when the sinks bear a second writer"
)


OLDEST, NEWEST = (4, 1), (4, 3)  # of drivers; checkpoints of older ones are read as well
RANGE = "4.1 to 4.3"
_VERSION = re.compile(r"__version__[^=]*=\s*['\"]([^'\"]+)")
_CORE = re.compile(r"spark-core_[\d.]+-(.+)\.jar")
_RELEASE = re.compile(r"\d+\.\d+\.\d+")
_FORCED = "pip install --force-reinstall --no-deps"


@dataclass(frozen=True, slots=True)
class InstalledSpark:
    """Releases that the parts of an installed Spark belong to, each ``None`` where there is no such part.

    :param home: Directory of pyspark.
    :param package: Of the distribution ``pyspark``.
    :param client: Of the distribution ``pyspark-client``.
    :param files: Of the Python files, by ``pyspark/version.py``.
    :param jars: Of the jars.
    """

    home: Path | None = None
    package: str | None = None
    client: str | None = None
    files: str | None = None
    jars: str | None = None


def installed_spark(path: Sequence[str] | None = None) -> InstalledSpark:
    """Look at the installed Spark, importing nothing of it.

    :param path: Where to look; by default the path of this interpreter.
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
    """Return the Spark whose ``bin/spark-submit`` starts the driver: *configured*, else that of the installed pyspark.

    :raises ConfigurationError: There is none, it is put together from two releases, or of one that is not supported.
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
    """Refuse a Spark that is put together from two releases, or was taken apart.

    :raises ConfigurationError: It is; names the releases and the command that installs one.
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
            f"pyspark {spark.package} is installed, but its Python files are gone: "
            "removing pyspark-client removes them too",
            next_step=f"Install pyspark again: {_FORCED} pyspark=={spark.package}",
        )
    if spark.files and spark.jars and _release(spark.files) != _release(spark.jars):
        raise ConfigurationError(
            f"the Python files of Spark in {str(spark.home)!r} are of release {spark.files}, its jars of release "
            f"{spark.jars}: another package has overwritten a part of it",
            next_step=f"Install pyspark again: {_FORCED} pyspark=={spark.jars}",
        )


def check_supported(home: Path) -> None:
    """Refuse a Spark whose drivers this package does not run. One whose jars do not tell their release passes.

    :raises ConfigurationError: It is older or newer than that.
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
    """Return the release of the Spark in a directory, by its jars; ``None`` where they do not say it."""
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
    """Without what builds add to it: ``4.3.0.dev0`` and ``4.3.0-SNAPSHOT`` are one."""
    match = _RELEASE.match(version)
    return match.group() if match else version
