"""The call of spark-submit.

The command line contains no user data: every user of the host can read it (``ps``). Conf, names and paths travel in a
properties file that only its owner can read, and the script's arguments in the job graph.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

from airflow_provider_ha._process.java import utf8_locale
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.driver.worker_imports import ARCHIVES, WORKER_PATH, archive_item, worker_path
from airflow_provider_ha.jobs.application.artifacts import FetchedApplication
from airflow_provider_ha.jobs.host.driver_spec import SPEC_VARIABLE, SUBMISSION_VARIABLE, DriverSpec
from airflow_provider_ha.jobs.model import JobGraph
from airflow_provider_ha.jobs.options.component_conf import needs_component
from airflow_provider_ha.jobs.options.component_jar import component_jar
from airflow_provider_ha.jobs.options.conf_keys import check_keys
from airflow_provider_ha.jobs.options.engine_options import PYTHON_OPTION, engine_options
from airflow_provider_ha.jobs.options.lineage_conf import counted
from airflow_provider_ha.jobs.options.site_conf import keys_of, site_defaults
from airflow_provider_ha.supervisor.packed_python import IMPORTS_VARIABLE, imports, packed_python
from airflow_provider_ha.uris import list_item


# An authenticating worker passes its secret in this variable; Spark's driver takes it from its conf alone.
AUTHENTICATION_VARIABLE = "_SPARK_AUTH_SECRET"
_FIRST_PRINTABLE, _LAST_PRINTABLE = 0x20, 0x7E
# spark-class first starts a JVM that only prints the command line of the second one: with one compiler that takes
# 0.1 s less.
_LAUNCHER_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def command(spark_home: Path, spec: DriverSpec) -> list[str]:
    """Return the command line: two file names, and no user data.

    The site's ``spark-defaults.conf`` counts below the properties (Spark 4.0, SPARK-48392): without the option a
    properties file hides it.
    """
    bootstrap = Path(__file__).parents[1] / "driver" / "bootstrap.py"
    submit = str(spark_home / "bin" / "spark-submit")
    return [submit, "--load-spark-defaults", "--properties-file", str(spec.home.properties), str(bootstrap)]


def environment(spark_home: Path, spec: DriverSpec, graph: JobGraph, inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the driver's environment: the supervisor's, the job's own variables, and the place of the spec."""
    values = {**inherited, **utf8_locale(inherited), **graph.env}
    if graph.target.master.startswith("local"):
        # Otherwise Spark's ports (driver, UI, block manager) are open to the network.
        values.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    values.setdefault("SPARK_LAUNCHER_OPTS", _LAUNCHER_OPTIONS)
    python = engine_options(spec.config, graph.target).get(PYTHON_OPTION, sys.executable)
    values |= {
        "SPARK_HOME": str(spark_home),
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": python,
        SPEC_VARIABLE: str(spec.home.spec),
        SUBMISSION_VARIABLE: spec.submission_id,
    }
    if packed_python(graph.conf) is not None:
        values[IMPORTS_VARIABLE] = imports()
    return values


def site_keys(spark_home: Path, environment: Mapping[str, str]) -> list[str]:
    """Return the conf keys of the site's file that the driver reads; empty without such a file.

    :raises OSError: It cannot be read; Spark could not read it either.
    """
    path = site_defaults(spark_home, environment)
    return [] if path is None else keys_of(path)


def properties(
    graph: JobGraph, application: FetchedApplication, config: HaConfig, site: Collection[str] = ()
) -> dict[str, str]:
    """Return Spark's conf: the user's, values that spark-submit would take from options, and the component if needed.

    The connection is not included: the driver reads it from its spec, which is then removed.

    :param site: Conf keys that the site's file sets on this host: injected OpenLineage settings count below them.
    :raises ConfigurationError: The work root needs the component, and this installation lacks it.
    """
    values = {**counted(graph.lineage, {*graph.conf, *site}), **graph.conf}
    component = [list_item(component_jar())] if needs_component(config) else []
    values |= {
        "spark.master": graph.target.master,
        "spark.app.name": graph.name,
        "spark.submit.deployMode": graph.target.deploy_mode,
    }
    if graph.driver_memory:
        values["spark.driver.memory"] = graph.driver_memory
    lists = {
        "spark.submit.pyFiles": [list_item(path) for path in application.py_files],
        "spark.files": [list_item(path) for path in application.files],
        "spark.jars": [*component, *(list_item(path) for path in application.jars)],
        "spark.jars.packages": list(graph.packages),
        ARCHIVES: [*application.archives, *([archive_item(application.archive)] if application.archive else [])],
    }
    for key, items in lists.items():
        own = [item for item in values.get(key, "").split(",") if item]
        if own or items:
            values[key] = ",".join([*own, *items])
    if values.get("spark.authenticate") == "true" and (secret := os.environ.get(AUTHENTICATION_VARIABLE)):
        values.setdefault("spark.authenticate.secret", secret)
    return values | {WORKER_PATH: worker_path(values, application.script.parent)}


def render(values: Mapping[str, str]) -> bytes:
    """Return *values* as a Java properties file, escaped so that Java reads exactly these strings.

    :raises ConfigurationError: A key is not a Spark key; spark-submit would drop it silently.
    """
    check_keys(values)
    return "".join(f"{_escape(key)}={_escape(value)}\n" for key, value in sorted(values.items())).encode("ascii")


def _escape(text: str) -> str:
    return "".join(_escape_unit(unit) for unit in _utf16_units(text))


def _utf16_units(text: str) -> list[int]:
    data = text.encode("utf-16-be", "surrogatepass")
    return [int.from_bytes(data[index : index + 2], "big") for index in range(0, len(data), 2)]


def _escape_unit(unit: int) -> str:
    if not _FIRST_PRINTABLE <= unit <= _LAST_PRINTABLE:
        return f"\\u{unit:04x}"
    character = chr(unit)
    return "\\" + character if character in "\\ :=#!" else character
