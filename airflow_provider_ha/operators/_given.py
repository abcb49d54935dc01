"""Values that a DAG gives: those that are no templates are checked when it is parsed, as Airflow checks names.

A word that is wrong then is an error of the DAG's import, and not one of a task at night.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from enum import Enum
from functools import partial
from typing import Any

from airflow_provider_ha.errors import ConfigurationError


_PLAIN = (str, int, float, timedelta, Enum)
_TEMPLATE = ("{{", "{%", "{#")


def check_given(task: Any, **checks: Callable[[Any], object]) -> None:
    """Check attributes of a task that are given and known now.

    :param checks: Attribute -> what raises for a value that cannot be used.
    :raises ConfigurationError: Values cannot be used; names all of them.
    """
    found: list[ConfigurationError] = []
    for name, check in checks.items():
        value = getattr(task, name)
        if value not in (None, "") and is_known(value):
            try:
                check(value)
            except ConfigurationError as error:
                found.append(error)
    if found:
        raise refusal_of(found)


def is_known(value: Any) -> bool:
    """Whether a value is what the task will have: no template, and no result of another task. Pure."""
    if isinstance(value, str):
        return not any(sign in value for sign in _TEMPLATE)
    if isinstance(value, Mapping):
        return all(map(is_known, value.values()))
    if isinstance(value, (list, tuple, set, frozenset)):
        return all(map(is_known, value))
    return value is None or isinstance(value, _PLAIN)


def refusal_of(found: Sequence[ConfigurationError]) -> ConfigurationError:
    """Return one error for all mistakes of a task."""
    steps = dict.fromkeys(error.next_step for error in found)
    if len(found) == 1:
        return found[0]
    return ConfigurationError("; ".join(error.message for error in found), next_step="; ".join(steps))


def one_of(parameter: str, allowed: Collection[str]) -> Callable[[Any], None]:
    """Return a check of a word."""

    def check(value: Any) -> None:
        if value not in allowed:
            raise ConfigurationError(f"{parameter}={value!r} is unknown", next_step=f"Use one of {', '.join(allowed)}")

    return check


def whole_number(parameter: str) -> Callable[[Any], None]:
    """Return a check of a number, which may be text."""

    def check(value: Any) -> None:
        if not str(value).strip().lstrip("-").isdigit():
            raise ConfigurationError(f"{parameter}={value!r} is no whole number", next_step="Write digits")

    return check


def number_of(given: int | str | None, parameter: str) -> int | None:
    """Return a number that may have come through a template; ``None`` when that rendered to nothing.

    :raises ConfigurationError: It is no whole number.
    """
    text = str(given).strip()
    if text in {"", "None"}:
        return None
    whole_number(parameter)(text)
    return int(text)


def number(parameter: str) -> Callable[[Any], None]:
    """Return a check of a number with or without a fraction, which may be text."""

    def check(value: Any) -> None:
        try:
            float(value)
        except (TypeError, ValueError):
            raise ConfigurationError(f"{parameter}={value!r} is no number", next_step="Write digits") from None

    return check


def above_zero(parameter: str) -> Callable[[Any], None]:
    """Return a check of seconds."""

    def check(value: Any) -> None:
        number(parameter)(value)
        if not float(value) > 0:
            raise ConfigurationError(f"{parameter}={value!r} is not above zero", next_step="Use more than 0 seconds")

    return check


def not_negative(parameter: str) -> Callable[[Any], None]:
    """Return a check of seconds that may be zero."""

    def check(value: Any) -> None:
        number(parameter)(value)
        if not float(value) >= 0:
            raise ConfigurationError(f"{parameter}={value!r} is below zero", next_step="Use 0 seconds or more")

    return check


def time_limit(parameter: str) -> Callable[[Any], None]:
    """Return a check of what Airflow takes as the longest wait."""

    def check(value: Any) -> None:
        if not isinstance(value, timedelta) or value <= timedelta(0):
            raise ConfigurationError(
                f"{parameter}={value!r} is no wait", next_step="Use a timedelta above zero, or None"
            )

    return check


def lists(*parameters: str) -> dict[str, Callable[[Any], None]]:
    """Return checks of lists: text in place of one would be taken letter by letter."""

    def check(parameter: str, value: Any) -> None:
        if isinstance(value, str):
            raise ConfigurationError(
                f"{parameter}={value!r} is text, and has to be a list", next_step=f"Write {parameter}=[{value!r}]"
            )

    return {parameter: partial(check, parameter) for parameter in parameters}


def flag(parameter: str) -> Callable[[Any], None]:
    """Return a check of what is true or false, which may be text."""

    def check(value: Any) -> None:
        if isinstance(value, str) and value.strip().lower() not in WORDS:
            raise ConfigurationError(f"{parameter}={value!r} is neither true nor false", next_step="Use True or False")

    return check


WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False, "none": False, "": False}
