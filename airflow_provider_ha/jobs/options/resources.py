"""Memory, cores and libraries of a job's processes, under the names of the Spark provider's operator, as Spark conf."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.jobs.options.declared import option
from airflow_provider_ha.records import Model


_OF_JAVA = re.compile(r"[1-9]\d*[kmgt]", re.IGNORECASE)
_OF_SPARK = re.compile(r"[1-9]\d*(?:b|[kmgtp]b?)?", re.IGNORECASE)  # megabytes without a unit
_KEYS = {  # parameter -> conf, as spark-submit has them for its options of these names
    "executor_cores": "spark.executor.cores",
    "executor_memory": "spark.executor.memory",
    "total_executor_cores": "spark.cores.max",
    "num_executors": "spark.executor.instances",
    "driver_class_path": "spark.driver.extraClassPath",
    "repositories": "spark.jars.repositories",
    "exclude_packages": "spark.jars.excludes",
}
_PLACE = {"group": "Where it runs"}
_APPLICATION = {"group": "Application"}


def check_memory(size: str, parameter: str) -> str:
    """Return a size of memory when Java takes it, or Spark for an executor.

    :param parameter: Its name.
    :raises ConfigurationError: It is none.
    """
    known = _OF_SPARK if parameter == "executor_memory" else _OF_JAVA
    if not known.fullmatch(str(size)):
        raise ConfigurationError(f"{parameter}={size!r} is not an amount of memory", next_step="Write it as 512m or 4g")
    return size


def memory(parameter: str) -> AfterValidator:
    """Return the check of an option with a size of memory."""
    return AfterValidator(partial(check_memory, parameter=parameter))


ExecutorMemory = Annotated[str, BeforeValidator(str), memory("executor_memory")]


class Resources(Model):
    """Resources that a job requests from Spark; ``None`` leaves the choice to conf, site and Spark."""

    executor_cores: int | None = option(None, "Cores of each executor.", shown=_PLACE, ge=1)
    executor_memory: ExecutorMemory | None = option(None, 'Memory of each executor: ``"2g"``.', shown=_PLACE)
    total_executor_cores: int | None = option(
        None, "Cores of all executors together, on a standalone cluster.", shown=_PLACE, ge=1
    )
    num_executors: int | None = option(
        None, "Number of executors; on a standalone cluster with *executor_cores*.", shown=_PLACE, ge=1
    )
    driver_class_path: str | None = option(
        None, "Class path of the driver's JVM, in addition to its jars.", shown=_PLACE
    )
    repositories: str | None = option(
        None, "Maven repositories for *packages*, separated by commas.", shown=_APPLICATION
    )
    exclude_packages: str | None = option(
        None, "``group:artifact`` of packages to leave out, separated by commas.", shown=_APPLICATION
    )

    def conf(self) -> dict[str, str]:
        """Return it as Spark conf."""
        given = {name: getattr(self, name) for name in _KEYS}
        return {_KEYS[name]: str(value) for name, value in given.items() if value not in (None, "")}

    def beside(self, conf: Mapping[str, str]) -> dict[str, str]:
        """Return *conf* with it.

        :raises ConfigurationError: Both say one thing, differently; names the parameter.
        """
        own = self.conf()
        for name, key in _KEYS.items():
            if key in own and conf.get(key, own[key]) != own[key]:
                raise ConfigurationError(
                    f"conf sets {key}={conf[key]!r}, and {name} is {own[key]!r}",
                    next_step=f"Remove {key} from conf, or leave {name} out",
                )
        return {**conf, **own}
