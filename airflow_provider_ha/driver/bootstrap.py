"""The script that spark-submit runs, because spark-submit accepts no module. All other code is in ``main``."""

import json
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType


class HostFinder:
    """Finds this package and its dependencies where the supervisor does, for a Python that travels with the job.

    It exposes no other packages of the host: the driver would see packages that its executors, in the same environment,
    do not have.

    :param path: Directories.
    :param names: Modules found there, if earlier finders do not have them.
    """

    def __init__(self, path: Sequence[str], names: Sequence[str]) -> None:
        self._path, self._names = list(path), frozenset(names)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the location of a module, in the protocol of Python's finders."""
        return PathFinder.find_spec(name, self._path, target) if path is None and name in self._names else None


def enter() -> None:
    """Import the package by its name, and run the driver.

    spark-submit puts the directory of this script first: names of our modules would then hide the user's and Spark's.
    """
    here = str(Path(__file__).resolve().parent)
    sys.path[:] = [entry for entry in sys.path if entry != here]
    package_parent = str(Path(here).parent.parent)
    given = os.environ.pop("SPARK_HA_IMPORTS", "")  # of a packed Python (``supervisor.packed_python``)
    if given:
        sys.meta_path.append(HostFinder(**json.loads(given)))
    elif package_parent not in sys.path:
        sys.path.append(package_parent)
    from airflow_provider_ha.driver.main import main  # noqa: PLC0415  # the path had to be repaired first

    main()


if __name__ == "__main__":
    enter()
