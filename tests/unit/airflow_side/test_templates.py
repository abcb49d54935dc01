"""Each parameter that an operator or a sensor adds is templated, or the page of operators says that it is not."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import BaseOperator, BaseSensorOperator

import airflow_provider_ha.operators
import airflow_provider_ha.sensors
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.jobs.options.declaration import read
from airflow_provider_ha.jobs.options.job_options import HaOptions


PAGE = Path(__file__).parents[3] / "docs" / "reference" / "operators.md"
OF_AIRFLOW = {
    name for base in (BaseOperator, BaseSensorOperator) for name in inspect.signature(base.__init__).parameters
}


def classes() -> Iterator[type[Any]]:
    for package in (airflow_provider_ha.operators, airflow_provider_ha.sensors):
        for module in pkgutil.iter_modules(package.__path__):
            if module.name.startswith("_"):
                continue
            found = importlib.import_module(f"{package.__name__}.{module.name}")
            for value in vars(found).values():
                if inspect.isclass(value) and value.__module__ == found.__name__ and hasattr(value, "template_fields"):
                    yield value


def added(operator: type[Any]) -> set[str]:
    """Return the parameters of a class and of its bases of this package."""
    own = [base for base in operator.__mro__ if base.__module__.startswith("airflow_provider_ha")]
    return {
        name
        for base in own
        for name, parameter in inspect.signature(base).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    } - OF_AIRFLOW


def not_templated() -> set[str]:
    """Return the names that the page lists."""
    text = PAGE.read_text(encoding="utf-8")
    sentence = re.search(r"Not templated are\s(.*?)\.\s", text, re.DOTALL)
    assert sentence is not None
    return set(re.findall(r"`(\w+)`", sentence[1]))


@pytest.mark.parametrize("operator", list(classes()), ids=lambda operator: operator.__name__)
def test_a_parameter_is_templated_or_the_page_says_that_it_is_not(operator: type[Any]) -> None:
    missing = added(operator) - set(operator.template_fields)

    assert missing <= not_templated()


def test_the_page_lists_nothing_that_every_operator_templates() -> None:
    somewhere = {name for operator in classes() for name in added(operator) - set(operator.template_fields)}

    assert not_templated() == somewhere


def test_options_of_a_job_may_come_out_of_templates_as_text() -> None:
    given = {
        "restart_attempts": "10",
        "restart_in_place": "False",
        "checkpoint_interval": "2.5",
        "driver_log_mb": "None",
    }

    options = read(HaOptions, given, subject="the job")

    assert (options.restart_attempts, options.restart_in_place, options.checkpoint_interval) == (10, False, 2.5)
    assert options.driver_log_mb == 20


def test_text_that_is_no_number_is_an_error_with_the_parameter() -> None:
    with pytest.raises(ConfigurationError, match="restart_attempts"):
        read(HaOptions, {"restart_attempts": "many"}, subject="the job")
