"""A Python that travels with the job, in one of its archives: ``spark.pyspark.python = ./environment/bin/python``.

The archive is unpacked in the working directories of the driver and of the executors, so the same relative path is
valid in all of them. This package is not in the environment: the driver finds this package and its dependencies where
the supervisor does, after everything in the environment (``driver.bootstrap``). That requires the same release of
Python on both sides. The driver sees no other packages of the host, as its executors do not.
"""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from airflow_provider_ha.errors import ConfigurationError


IMPORTS_VARIABLE = "SPARK_HA_IMPORTS"  # JSON: where a driver in a packed environment finds which modules

_ANSWER_SECONDS = 60.0
_DISTRIBUTIONS = ("airflow-provider-ha", "confluent-kafka", "pure-sasl")  # the latter where they are installed
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
    :raises ConfigurationError: It is missing, cannot run on this host, or is of another release.
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
    """Return where this package and its dependencies are found here, as the value of :data:`IMPORTS_VARIABLE`."""
    here = str(Path.cwd())
    path = [entry for entry in sys.path if entry and entry != here and Path(entry).is_dir()]
    return json.dumps({"path": [*path, str(Path(__file__).parents[2])], "names": _modules()})


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
