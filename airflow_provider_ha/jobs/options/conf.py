"""Spark conf and engine options of a job: keys, site defaults, lineage, and the component in the JVM.

- The component's conf is set before the script creates its session: values of a session would be lost in
  ``spark.newSession()``, and the queries of the new session would run unfenced.
- spark-submit reads the site's defaults below the job's own conf (``--load-spark-defaults``). They belong to the host
  and not to the job graph: after a move to another host, the other host's file counts.
- The conf for OpenLineage is stored separately from the conf of the job, in the graph of its run. So a recovered run
  keeps the parent that submitted it, and a later try of a task, with another run id, still requests the same job. It
  holds no secret: the graph is kept for months, and would still hold a replaced key.
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
from airflow_provider_ha.host.engines.table import SPARK_HOME_OPTION
from airflow_provider_ha.jobs.job_graph import Target
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.uris import split


_FOLDER = Path(__file__).parents[2] / "driver" / "jvm"


def component_jar(folder: Path = _FOLDER) -> Path:
    """Return the jar of this release from the package.

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
    "spark.driver.supervise": "restart_in_place, or an option restart_*: a cluster would restart behind them, so",
}


def check_conf(conf: Mapping[str, str]) -> None:
    """Refuse conf that has a parameter, or that spark-submit would drop without an error.

    :raises ConfigurationError: The conf has such a key; the message names it, and the parameter.
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

    :raises ConfigurationError: A key does not belong to Spark.
    """
    for key in keys:
        if not _KEY.fullmatch(key):
            raise ConfigurationError(
                f"{key!r} is not a Spark conf key", next_step="Spark reads only keys that begin with 'spark.'"
            )


FILE = "spark-defaults.conf"
_SITE_KEY = re.compile(r"\s*(spark\.[^\s:=]+)")


def site_defaults(spark_home: Path | None, environment: Mapping[str, str]) -> Path | None:
    """Return the defaults file of a driver on this host, or ``None``.

    :param spark_home: Spark's directory; ``None`` if unknown.
    """
    folder = environment.get("SPARK_CONF_DIR")
    found = Path(folder) / FILE if folder else (spark_home / "conf" / FILE if spark_home is not None else None)
    return found if found is not None and found.is_file() else None


def keys_of(path: Path) -> list[str]:
    """Return the conf keys that the file sets, sorted. Values are not returned, because some are secrets.

    :raises OSError: The file cannot be read.
    """
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return sorted({match[1] for line in lines if (match := _SITE_KEY.match(line))})


_PARENT = ("spark.openlineage.parent", "spark.openlineage.rootParent")
_TRANSPORT = ("spark.openlineage.transport",)
_SECRET = ("auth.", "headers.")


def counted(lineage: Mapping[str, str], given: Collection[str]) -> dict[str, str]:
    """Return the part of *lineage* that stays effective if the user sets the conf keys *given*. Pure.

    Parent and transport are each replaced as a whole, as in Airflow's Spark provider: an address and a key from
    different transports must never be combined.
    """
    found = dict(lineage)
    for group in (_PARENT, _TRANSPORT):
        if any(key.startswith(group) for key in given):
            found = {key: value for key, value in found.items() if not key.startswith(group)}
    return found


def of_another_request(lineage: Mapping[str, str]) -> dict[str, str]:
    """Return the part of a run's *lineage* for a run of another request: without the parent. Pure."""
    return {key: value for key, value in lineage.items() if not key.startswith(_PARENT)}


def merged(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str]:
    """Return the lineage of a run created from another run's graph. Pure.

    :param old: Lineage of the other run.
    :param new: Lineage of the request; its transport replaces the old one.
    """
    return {**counted(of_another_request(old), new), **new}


def secrets_in(transport: Mapping[str, str]) -> tuple[str, ...]:
    """Return the keys of a transport that may hold a secret: keys, headers, and a URL with a login. Pure."""
    return tuple(sorted(key for key, value in transport.items() if _is_secret(key, value)))


def _is_secret(key: str, value: str) -> bool:
    if not key.startswith(_TRANSPORT):
        return False
    name = key.removeprefix(_TRANSPORT[0])
    if any(f".{part}" in name for part in _SECRET):
        return True
    parts = urlsplit(value)
    return "@" in parts.netloc or bool(parts.query)


def engine_options(config: HaConfig, target: Target) -> dict[str, str]:
    """Return the effective options of a job: its own, then the connection's.

    Remaining options are as at the submission: a client that recovers the job at night may only know how to reach the
    cluster.
    """
    return {**target.cluster_options, **config.engines.get(target.engine, {}), **target.engine_options}


def named_spark_home(options: Mapping[str, str]) -> Path | None:
    """Return Spark's directory from the options or this host's ``SPARK_HOME``, or ``None``."""
    named = options.get(SPARK_HOME_OPTION) or os.environ.get("SPARK_HOME")
    return Path(named) if named else None


PREFIX = "ha"
SCHEMES = frozenset({"hafile", "hahdfs", "has3a"})
FILE_SYSTEM_CLASS = "io.github.sparkha.HaFileSystem"
MANAGER_CLASS = "io.github.sparkha.HaCheckpointFileManager"
MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
ROOT = "spark.hadoop.fs.ha.root"
WRITER = "spark.hadoop.fs.ha.writer"
_OWNED = "spark.hadoop.fs.ha"  # prefix of the component's keys and of the classes of its file systems


def needs_component(config: HaConfig) -> bool:
    """Return whether the work root of a cluster needs the component to keep two drivers apart."""
    return not config.work_uri.startswith("file:")


def is_layered(location: str) -> bool:
    """Return whether the URI of a working directory has a scheme of the component."""
    return split(location).scheme in SCHEMES


def writer_id(epoch: int, submission: str, process: str) -> str:
    """Return the writer id that is stored with an object."""
    return f"{epoch}/{submission}/{process}"


def component_conf(root: str) -> dict[str, str]:
    """Return the conf for driver and executors, in addition to the jar and to ``WRITER``.

    :param root: Storage root with the plain scheme (``s3a://bucket/prefix``); places in base files are relative to it.
    """
    return {
        f"spark.hadoop.fs.{PREFIX}{split(root).scheme}.impl": FILE_SYSTEM_CLASS,
        ROOT: root,
        MANAGER: MANAGER_CLASS,
    }


PLUGINS = "spark.plugins"
COPIES_PLUGIN = "io.github.sparkha.CopiesPlugin"


def with_copies_plugin(plugins: str | None) -> str:
    """Return ``spark.plugins`` with the one that reports the reads of state; the user's stay."""
    named = plugins.split(",") if plugins else []
    return ",".join(named if COPIES_PLUGIN in named else [*named, COPIES_PLUGIN])


COPIES = f"{_OWNED}.copies"  # the switch: queries of a standby driver's warm-up have no copies


def copies_conf(options: HaOptions) -> dict[str, str]:
    """Return the conf of the directory for copies of state on the local disk; empty when they are off."""
    if not options.local_recovery:
        return {}
    conf = {f"{_OWNED}.copies.mb": str(options.local_recovery_mb)}
    if options.local_recovery_dir is not None:
        conf[f"{_OWNED}.copies.directory"] = options.local_recovery_dir
    return conf


def refuse_owned(conf: Mapping[str, str]) -> None:
    """Refuse a user's conf with keys that this package has to set.

    :raises ApplicationRefusedError: The conf has such a key.
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
                next_step="Remove it: the connection determines where a job works",
            )
