"""Secrets among the arguments of a script: found by the name beside a value, or by the form of the value.

The driver needs the arguments as they are, so the job graph holds them so. Everything that shows them hides these
values, and a submission warns of them by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from airflow_provider_ha.redaction import HIDDEN, redact, secret_values


_NAMED = re.compile(r"(?P<name>-{0,2}[A-Za-z][\w.-]*)=(?P<value>.*)", re.DOTALL)
_FLAG = re.compile(r"--?[A-Za-z][\w.-]*")
_NEXT_FLAG = re.compile(r"--[A-Za-z].*|-[A-Za-z]", re.DOTALL)  # a password may begin with one dash
# Names of options that speak of a secret and hold none: --token-column user
_NO_SECRET = ("column", "columns", "count", "name", "url")


@dataclass(frozen=True, slots=True)
class _Seen:
    """One argument.

    :param shown: As it may be shown.
    :param name: What to call it; empty when it holds no secret.
    :param value: What is secret of it.
    """

    shown: str
    name: str = ""
    value: str = ""


def hidden(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return the arguments as they may be shown: ``--password=***``. Pure."""
    return tuple(each.shown for each in _look(arguments))


def secret_names(arguments: Sequence[str]) -> list[str]:
    """Return what to call those that look like secrets, for a warning: ``--password``, ``argument 2``. Pure."""
    return [each.name for each in _look(arguments) if each.name]


def argument_secrets(arguments: Sequence[str]) -> set[str]:
    """Return the values that look like secrets; of a value with a secret in it the whole argument. Pure."""
    return {each.value for each in _look(arguments) if each.value}


def _look(arguments: Sequence[str]) -> Iterator[_Seen]:
    flag = ""  # before this argument, when its name says that a secret follows
    for number, argument in enumerate(arguments, 1):
        if flag and not _NEXT_FLAG.fullmatch(argument):
            secret, name, flag = _is_secret(flag, argument), flag, ""
            yield _Seen(HIDDEN, name, argument) if secret else _Seen(argument)
            continue
        flag = argument if _FLAG.fullmatch(argument) and _is_secret(argument, "value") else ""
        named = _NAMED.fullmatch(argument)
        if named and _is_secret(named["name"], named["value"]):
            yield _Seen(f"{named['name']}={HIDDEN}", named["name"], named["value"])
            continue
        # The name of an option is no part of what is looked at: --token-file=/run/token names a file.
        prefix, value = (f"{named['name']}=", named["value"]) if named else ("", argument)
        shown = prefix + redact(value)
        yield _Seen(shown) if shown == argument else _Seen(shown, f"argument {number}", argument)


def _is_secret(name: str, value: str) -> bool:
    return not name.lower().endswith(_NO_SECRET) and bool(secret_values({name: value}))
