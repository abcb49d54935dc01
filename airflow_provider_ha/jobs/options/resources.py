"""Memory, cores and libraries of a job's processes, under the names of the Spark provider's operator, as Spark conf."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from airflow_provider_ha.errors import ConfigurationError


_KEYS = {  # parameter -> conf, as spark-submit has them for its options of these names
    "executor_cores": "spark.executor.cores",
    "executor_memory": "spark.executor.memory",
    "total_executor_cores": "spark.cores.max",
    "num_executors": "spark.executor.instances",
    "driver_class_path": "spark.driver.extraClassPath",
    "repositories": "spark.jars.repositories",
    "exclude_packages": "spark.jars.excludes",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What a job asks Spark for; ``None`` leaves it to the conf, the site and Spark.

    :param executor_cores: Cores of each executor.
    :param executor_memory: Memory of each executor: ``"2g"``.
    :param total_executor_cores: Cores of all executors together (standalone).
    :param num_executors: How many executors (YARN, Kubernetes; standalone with *executor_cores*).
    :param driver_class_path: Class path of the driver's JVM, beside its jars.
    :param repositories: Maven repositories for the packages, separated by commas.
    :param exclude_packages: ``group:artifact`` of packages that are left out, separated by commas.
    """

    executor_cores: int | None = None
    executor_memory: str | None = None
    total_executor_cores: int | None = None
    num_executors: int | None = None
    driver_class_path: str | None = None
    repositories: str | None = None
    exclude_packages: str | None = None

    def conf(self) -> dict[str, str]:
        """Return it as Spark conf."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
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
