"""Secrets among the arguments of a script: recognized by the name next to a value, or by the form of the value.

The driver needs the original arguments, so the job graph holds them unchanged. Every display hides these values, and a
submission logs a warning with their names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from airflow_provider_ha.redaction import HIDDEN, redact, secret_values


# --password=..., and a header as X-Api-Key: ...
_NAMED = re.compile(r"(?P<name>-{0,2}[A-Za-z][\w.-]*)(?P<sign>=|:\s*)(?P<value>.*)", re.DOTALL)
_FLAG = re.compile(r"--?[A-Za-z][\w.-]*")
_NEXT_FLAG = re.compile(r"--[A-Za-z].*|-[A-Za-z]", re.DOTALL)  # a password may begin with a single dash
# The name has to end with the word: --token-topic, --max-tokens and --tokenizer name no secret. Words of their kind are
# written together (PGPASSWORD), apart (db-token) or with a capital letter (dbToken).
_SECRET_END = re.compile(
    r"(?i:pass(?:word|wd|phrase)|auth[._-]?user[._-]?info)\d*"
    r"|(?:\A|[._-]|(?<=[a-z0-9])(?=[A-Z]))"
    r"(?i:pwd|secret|token|credentials?|authorization|bearer|signature|sig|(?:access|account|api|private|secret|shared)[._-]?key)\d*"
)
# Azure puts the account behind the name: fs.azure.account.key.ACCOUNT.dfs.core.windows.net
_AZURE_ACCOUNT = re.compile(r"(?i)\.[\w-]+\.(?:blob|dfs)\.core\.[\w.-]+\Z")
_URL_USER = re.compile(r"://[^\s:/@]*:\Z")
_NAME_BEFORE = re.compile(r"([\w.-]+)[\"']?(?:\s*[=:,]\s*|\s+)[\"']?\Z")
_LOOKED_BACK = 200  # characters: a name, and the text between it and its value
_NO_VALUES = frozenset({"", "true", "false", "none", "null"})
_NUMBER = re.compile(r"[+-]?[\d.,_]+")
_REMEMBERED = 4  # characters: a shorter value occurs in too many words and names


@dataclass(frozen=True, slots=True)
class _Seen:
    """Analysed argument.

    :param shown: Displayable form.
    :param name: Name in messages; empty when it holds no secret.
    :param values: Secret parts.
    """

    shown: str
    name: str = ""
    values: tuple[str, ...] = ()


def hidden(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return the arguments as they may be shown: ``--password=***``. Pure."""
    return tuple(each.shown for each in _look(arguments))


def secret_names(arguments: Sequence[str]) -> list[str]:
    """Return the names of arguments that look like secrets, for a warning: ``--password``, ``argument 2``. Pure."""
    return [each.name for each in _look(arguments) if each.name]


def argument_secrets(arguments: Sequence[str]) -> set[str]:
    """Return the values to hide in every text; for a value that contains a secret only the secret. Pure.

    The surrounding text stays readable, because people need it in an error: which server, which database, which user.
    Numbers and values below 4 characters are omitted, because they would be hidden in every message with the same
    digits or letters. :func:`hidden` hides them only in place.
    """
    return {
        value
        for each in _look(arguments)
        for value in each.values
        if len(value) >= _REMEMBERED and not _NUMBER.fullmatch(value)
    }


def script_secrets(conf: Mapping[str, str], env: Mapping[str, str], arguments: Sequence[str]) -> set[str]:
    """Return all values given to a script that every text must hide. Pure."""
    return secret_values(conf) | secret_values(env) | argument_secrets(arguments)


def _look(arguments: Sequence[str]) -> Iterator[_Seen]:
    flag = ""  # set if the name of the previous argument announces a secret
    for number, argument in enumerate(arguments, 1):
        if flag and not _NEXT_FLAG.fullmatch(argument):
            name, flag = flag, ""
            yield _Seen(HIDDEN, name, (argument,)) if _has_value(argument) else _Seen(argument)
            continue
        flag = argument if _FLAG.fullmatch(argument) and _is_secret(argument) else ""
        yield _alone(argument, number)


def _alone(argument: str, number: int) -> _Seen:
    """Return the analysis of an argument without its neighbours."""
    prefix, value = "", argument
    while (named := _NAMED.fullmatch(value)) is not None:  # --header=X-Api-Key: ... has two names
        if _is_secret(named["name"]) and _has_value(named["value"]):
            return _Seen(f"{prefix}{named['name']}{named['sign']}{HIDDEN}", named["name"], (named["value"],))
        if named["sign"] != "=":
            break  # jdbc:...: the whole value is significant
        # The name of an option is not examined: --token-file=/run/token names a file.
        prefix, value = f"{prefix}{named['name']}=", named["value"]
    shown = redact(value)
    if shown == value:
        return _Seen(argument)
    return _Seen(f"{prefix}{shown}", f"argument {number}", tuple(_replaced(value, shown)))


def _replaced(value: str, shown: str) -> Iterator[str]:
    """Yield the parts of *value* that *shown* hides: as written, and as a library decodes them from a URL.

    Values hidden only because of a name like ``"token_topic": "orders"`` are left out, as among the options.
    """
    first, *others = shown.split(HIDDEN)
    begin = len(first)
    for number, kept in enumerate(others, 1):
        end = len(value) - len(kept) if number == len(others) else value.find(kept, begin)
        if end < begin:
            yield value  # the positions of its secrets are unknown
            return
        before = value[max(begin - _LOOKED_BACK, 0) : begin]
        named = None if _URL_USER.search(before) else _NAME_BEFORE.search(before)
        if named is None or _is_secret(named[1]):
            part = value[begin:end].strip("\"'")
            yield from {part, unquote(part)}
        begin = end + len(kept)


def _is_secret(name: str) -> bool:
    name = _AZURE_ACCOUNT.sub("", name)
    return any(found.end() == len(name) for found in _SECRET_END.finditer(name))


def _has_value(value: str) -> bool:
    return value.lower() not in _NO_VALUES
