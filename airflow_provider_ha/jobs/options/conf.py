"""Spark conf and engine options of a job: keys, site defaults, lineage, and the component in the JVM.

It is set before the script makes its session: a value of a session would be lost in ``spark.newSession()``, and the
queries of that session would run unfenced.

spark-submit reads it below the job's own conf (``--load-spark-defaults``). It is part of the host and not of the job
graph: after a move to another host the other host's file counts.

It lies beside the conf of the job, in the graph of its run. So a run that is recovered, by any process, keeps the
parent that submitted it, and a try of a task that has another run id asks for the same job. It holds no secret: the
graph lives for months, and a key that is replaced later would still be in it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from airflow_provider_ha._version import __version__
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.errors import ApplicationRefusedError, ConfigurationError
from airflow_provider_ha.jobs.model import Target
from airflow_provider_ha.uris import split


_FOLDER = Path(__file__).parents[2] / "driver" / "jvm"


def component_jar(folder: Path = _FOLDER) -> Path:
    """Return the jar of this release, which lies in the package.

    :raises ConfigurationError: The package was installed from its sources, on a host without a JDK.
    """
    jar = folder / f"spark-ha-component-{__version__}.jar"
    if not jar.is_file():
        raise ConfigurationError(
            f"this installation has no {jar.name}, which Spark needs for checkpoints on s3:// and hdfs://",
            next_step="Install the wheel, or install a JDK and run `python java/build_component.py` in the checkout",
        )
    return jar


_KEY = re.compile(r"spark\.\S+")
OWNED_CONF = {
    "spark.master": "master",
    "spark.submit.deployMode": "engine, which knows how it deploys a driver,",
    "spark.app.name": "name",
    "spark.driver.supervise": "restart_in_place, or one of restart_*: a cluster would restart behind them, so",
}


def check_conf(conf: Mapping[str, str]) -> None:
    """Refuse conf that has a parameter, or that spark-submit drops: nothing would say so.

    :raises ConfigurationError: It holds such a key; names it, and the parameter.
    """
    check_keys(conf)
    for key, parameter in OWNED_CONF.items():
        if key in conf:
            raise ConfigurationError(
                f"conf sets {key}={conf[key]!r}, which a managed job sets by a parameter",
                next_step=f"Remove it from conf, and use the parameter {parameter} instead",
            )


def check_keys(keys: Iterable[str]) -> None:
    """Refuse keys that spark-submit would drop without an error.

    :raises ConfigurationError: A key is not one of Spark's.
    """
    for key in keys:
        if not _KEY.fullmatch(key):
            raise ConfigurationError(
                f"{key!r} is not a Spark conf key", next_step="Spark reads only keys that begin with 'spark.'"
            )


FILE = "spark-defaults.conf"
_SITE_KEY = re.compile(r"\s*(spark\.[^\s:=]+)")


def site_defaults(spark_home: Path | None, environment: Mapping[str, str]) -> Path | None:
    """Return the file that a driver of this host reads; ``None`` when there is none.

    :param spark_home: Spark's directory; ``None`` when it is not known.
    """
    folder = environment.get("SPARK_CONF_DIR")
    found = Path(folder) / FILE if folder else (spark_home / "conf" / FILE if spark_home is not None else None)
    return found if found is not None and found.is_file() else None


def keys_of(path: Path) -> list[str]:
    """Return the conf keys that the file sets, sorted. Values stay in the file: some are secrets.

    :raises OSError: It cannot be read.
    """
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return sorted({match[1] for line in lines if (match := _SITE_KEY.match(line))})


_PARENT = ("spark.openlineage.parent", "spark.openlineage.rootParent")
_TRANSPORT = ("spark.openlineage.transport",)
_SECRET = ("auth.", "headers.")


def counted(lineage: Mapping[str, str], given: Collection[str]) -> dict[str, str]:
    """Return what of *lineage* counts beside the conf keys *given*. Pure.

    Of the parent and of the transport each all or nothing, as in Airflow's Spark provider: the address of one
    transport never meets the key of another.
    """
    found = dict(lineage)
    for group in (_PARENT, _TRANSPORT):
        if any(key.startswith(group) for key in given):
            found = {key: value for key, value in found.items() if not key.startswith(group)}
    return found


def of_another_request(lineage: Mapping[str, str]) -> dict[str, str]:
    """Return what of a run's *lineage* holds for a run that another request makes: never its parent. Pure."""
    return {key: value for key, value in lineage.items() if not key.startswith(_PARENT)}


def merged(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str]:
    """Return the lineage of a run that is made from the graph of another one. Pure.

    :param old: Of that graph.
    :param new: Of the request; its transport takes the place of the old one.
    """
    return {**counted(of_another_request(old), new), **new}


def secrets_in(transport: Mapping[str, str]) -> tuple[str, ...]:
    """Return the keys of a transport that hold a secret, or may: keys, headers, and a URL with a login. Pure."""
    return tuple(sorted(key for key, value in transport.items() if _is_secret(key, value)))


def _is_secret(key: str, value: str) -> bool:
    if not key.startswith(_TRANSPORT):
        return False
    name = key.removeprefix(_TRANSPORT[0])
    if any(f".{part}" in name for part in _SECRET):
        return True
    parts = urlsplit(value)
    return "@" in parts.netloc or bool(parts.query)


PYTHON_OPTION = "python"  # interpreter of the driver and of its Python workers
SPARK_HOME_OPTION = "spark_home"  # directory with ``bin/spark-submit``
HOST_OPTIONS = frozenset({PYTHON_OPTION, SPARK_HOME_OPTION})  # of the host that runs a driver, for each engine


def engine_options(config: HaConfig, target: Target) -> dict[str, str]:
    """Return the options that count for a job: its own, and those of the connection for what it leaves open.

    What neither names is as it was when the job was submitted: a client that recovers it at night may know only how to
    reach the cluster.
    """
    return {**target.cluster_options, **config.engines.get(target.engine, {}), **target.engine_options}


def check_options(engine: str, given: Mapping[str, str], known: frozenset[str]) -> None:
    """Refuse options that nothing reads.

    :raises ConfigurationError: Names them.
    """
    if unknown := sorted(set(given) - known):
        raise ConfigurationError(
            f"the engine {engine!r} has no options {unknown}", next_step=f"Use {sorted(known)}, or none"
        )


def named_spark_home(options: Mapping[str, str]) -> Path | None:
    """Return Spark's directory where the options or ``SPARK_HOME`` of this host name one."""
    named = options.get(SPARK_HOME_OPTION) or os.environ.get("SPARK_HOME")
    return Path(named) if named else None


PREFIX = "ha"
SCHEMES = frozenset({"hafile", "hahdfs", "has3a"})
FILE_SYSTEM_CLASS = "io.github.sparkha.HaFileSystem"
MANAGER_CLASS = "io.github.sparkha.HaCheckpointFileManager"
MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
ROOT = "spark.hadoop.fs.ha.root"
WRITER = "spark.hadoop.fs.ha.writer"
_OWNED = "spark.hadoop.fs.ha"  # and what follows: the component's keys and the classes of its file systems


def needs_component(config: HaConfig) -> bool:
    """Whether the jobs of a cluster work where only the component can keep two drivers apart."""
    return not config.work_uri.startswith("file:")


def is_layered(location: str) -> bool:
    """Whether a working directory's URI is one of the component's."""
    return split(location).scheme in SCHEMES


def writer_id(epoch: int, submission: str, process: str) -> str:
    """Return the writer id that an object keeps."""
    return f"{epoch}/{submission}/{process}"


def component_conf(root: str, writer: str) -> dict[str, str]:
    """Return the conf that driver and executors need, beside the jar.

    :param root: Storage root with the plain scheme (``s3a://bucket/prefix``): places of a base are relative to it.
    :param writer: See :func:`writer_id`.
    """
    return {
        f"spark.hadoop.fs.{PREFIX}{split(root).scheme}.impl": FILE_SYSTEM_CLASS,
        ROOT: root,
        WRITER: writer,
        MANAGER: MANAGER_CLASS,
    }


def refuse_owned(conf: Mapping[str, str]) -> None:
    """Refuse a user's conf that sets what this package has to set.

    :raises ApplicationRefusedError: It does.
    """
    for key, value in conf.items():
        if key == MANAGER and value != MANAGER_CLASS:
            raise ApplicationRefusedError(
                f"the Spark conf sets {key} to {value}, which does not create entries exclusively",
                next_step=f"Remove it: checkpoints on this storage are written by {MANAGER_CLASS}",
            )
        if key.startswith(_OWNED) and not key.startswith("spark.hadoop.fs.har."):
            raise ApplicationRefusedError(
                f"the Spark conf sets {key}, which belongs to airflow-provider-ha",
                next_step="Remove it: where a job works is said by the connection",
            )
