"""Call of spark-submit: command, environment, properties, and a Python that travels with the job.

The command line contains no user data, because every user of the host can read it (``ps``). Conf, names and paths
travel in a properties file that only its owner can read, and the script's arguments in the job graph.

A packed Python is an archive that is unpacked in the working directories of the driver and of the executors, so the
same relative path is valid on all hosts. This package is not in the archive: the driver finds this package and its
dependencies in the supervisor's environment, after everything in the archive (``driver.bootstrap``). That requires the
same release of Python on both sides. The driver sees no other packages of the host, as its executors do not.
"""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from collections.abc import Collection, Mapping
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.driver.script_environment import ARCHIVES, WORKER_PATH, archive_item, worker_path
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.host.engines.table import PYTHON_OPTION
from airflow_provider_ha.host.java import utf8_locale
from airflow_provider_ha.jobs.application.artifacts import FetchedApplication
from airflow_provider_ha.jobs.drivers.driver_spec import SPEC_VARIABLE, SUBMISSION_VARIABLE, DriverSpec
from airflow_provider_ha.jobs.drivers.spark_release import is_local
from airflow_provider_ha.jobs.job_graph import JobGraph
from airflow_provider_ha.jobs.options.conf import (
    check_keys,
    component_jar,
    counted,
    engine_options,
    keys_of,
    needs_component,
    site_defaults,
)
from airflow_provider_ha.uris import list_item


IMPORTS_VARIABLE = "SPARK_HA_IMPORTS"  # JSON: import path and modules for a packed environment

_ANSWER_SECONDS = 60.0
_DISTRIBUTIONS = ("airflow-provider-ha", "confluent-kafka", "pure-sasl")  # modules in their installed place
_CODE = frozenset({".py", ".so"})
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_VERSION = "import sys; print('{}.{}'.format(*sys.version_info))"


def packed_python(conf: Mapping[str, str]) -> str | None:
    """Return the driver's Python if the conf names it relative to the working directory, else ``None``. Pure."""
    named = conf.get("spark.pyspark.driver.python") or conf.get("spark.pyspark.python") or ""
    return named if "/" in named and not named.startswith("/") else None


def check_python(named: str, directory: Path) -> None:
    """Refuse a packed Python that is unsuitable for the driver.

    :param directory: Working directory of the driver, with the unpacked archives.
    :raises ConfigurationError: The Python is missing, cannot run on this host, or is of another release.
    """
    program = [str(directory / named), "-c", _VERSION]
    try:
        answer = subprocess.run(program, capture_output=True, text=True, timeout=_ANSWER_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise ConfigurationError(
            f"the driver's Python {named!r} of the conf cannot be run on this host: {error}",
            next_step="Use its path in the archives (archive.tar.gz#environment: ./environment/bin/python). An "
            "archive of venv-pack holds a link to a Python: each host needs that Python, at the same path",
        ) from error
    found, ours = answer.stdout.strip(), "{}.{}".format(*sys.version_info)
    if found != ours:
        raise ConfigurationError(
            f"the driver's Python {named!r} of the conf is {found}, and airflow-provider-ha has {ours} on this host",
            next_step=f"Pack an environment of Python {ours}, or name a Python {found} with airflow-provider-ha in the "
            "engine option 'python'",
        )


def imports() -> str:
    """Return the value of :data:`IMPORTS_VARIABLE`: this host's import path, and the modules of this package."""
    here = str(Path.cwd())
    path = [entry for entry in sys.path if entry and entry != here and Path(entry).is_dir()]
    return json.dumps({"path": [*path, str(Path(__file__).parents[3])], "names": _modules()})


def _modules() -> list[str]:
    """Return the modules of this package and of all its dependencies."""
    needed, left = set[str](), list(_DISTRIBUTIONS)
    found = {__name__.partition(".")[0]}
    while left:
        name = _plain(left.pop())
        if name not in needed:
            needed.add(name)
            try:
                known = distribution(name)
            except PackageNotFoundError:
                continue
            found |= _modules_of(known)
            left += _requirements(known)
    return sorted(found)


def _modules_of(known: Distribution) -> set[str]:
    """Return the top-level modules of a distribution, by its files.

    Not ``packages_distributions()``: on Python 3.10 it knows only declared modules, and newer build backends declare
    none.
    """
    code = (file for file in known.files or () if file.suffix in _CODE)
    named = {file.parts[0] if len(file.parts) > 1 else inspect.getmodulename(file.name) for file in code}
    declared = (known.read_text("top_level.txt") or "").split()
    return {name for name in (*named, *declared) if name and name.isidentifier()}


def _requirements(known: Distribution) -> list[str]:
    lines = known.requires or []
    return [found.group() for line in lines if "extra ==" not in line and (found := _NAME.match(line))]


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


_FIRST_PRINTABLE, _LAST_PRINTABLE = 0x20, 0x7E
# spark-class first starts a JVM that only prints the command line of the second one; with one compiler that takes 0.1 s
# less.
_LAUNCHER_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def command(spark_home: Path, spec: DriverSpec) -> list[str]:
    """Return the command line: two file names, and no user data.

    The site's ``spark-defaults.conf`` counts below the properties (Spark 4.0, SPARK-48392): without the option a
    properties file hides it.
    """
    bootstrap = Path(__file__).parents[2] / "driver" / "bootstrap.py"
    submit = str(spark_home / "bin" / "spark-submit")
    return [submit, "--load-spark-defaults", "--properties-file", str(spec.home.properties), str(bootstrap)]


def environment(spark_home: Path, spec: DriverSpec, graph: JobGraph, inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the driver's environment: the supervisor's, the job's own variables, and the place of the spec."""
    values = {**inherited, **utf8_locale(inherited), **graph.env}
    if is_local(graph.target.master):
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

    :raises OSError: The file cannot be read; Spark could not read it either.
    """
    path = site_defaults(spark_home, environment)
    return [] if path is None else keys_of(path)


def properties(
    graph: JobGraph,
    application: FetchedApplication,
    config: HaConfig,
    *,
    site: Collection[str] = (),
    place: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return Spark's conf: the user's, values that spark-submit would take from options, and the component if needed.

    The connection is not included: the driver reads it from its spec, which is then removed.

    :param site: Conf keys that the site's file sets on this host: injected OpenLineage settings count below them.
    :param place: Conf that only the place of the driver knows (``host.engines.arrivals``).
    :raises ConfigurationError: The work root needs the component, and this installation lacks it.
    """
    values = {**(place or {}), **counted(graph.lineage, {*graph.conf, *site}), **graph.conf}
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
