"""Classes of operators, sensors and triggers that this package offers to authors of DAGs."""

from __future__ import annotations

import importlib
import inspect

from airflow_provider_ha.get_provider_info import get_provider_info


INFO = get_provider_info()


def modules(*kinds: str) -> list[str]:
    return [name for kind in kinds for entry in INFO[kind] for name in entry["python-modules"]]


def public_classes(*kinds: str) -> list[type]:
    found = []
    for name in modules(*kinds):
        module = importlib.import_module(name)
        found += [
            value
            for value in vars(module).values()
            if inspect.isclass(value) and value.__module__ == name and value.__name__.startswith("SparkHa")
        ]
    return found


OPERATORS = public_classes("operators", "sensors")
