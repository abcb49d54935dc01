"""Translation of remedies into command options: ``start_from='fresh'`` is ``--start-from fresh`` in a shell.

Reasons and errors name parameters of the operators, as written in a DAG. A reason is recorded once and read from both
sides, even years later, so the translation happens on output, and records stay unchanged.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterable


# Parameter of the operators -> option of the command.
_OPTIONS = {
    "start_from": "--start-from",
    "sinks": "--sink",
    "if_lost": "--if-lost",
    "accept_verdicts": "--accept-verdict",
    "accept_unverified": "--accept-unverified",
    "repeatable": "--repeatable",
    "allow_new_queries": "--allow-new-queries",
}
_TEXT = r"(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
_MAP = rf"\{{{_TEXT}: {_TEXT}(?:, {_TEXT}: {_TEXT})*\}}"
_LIST = rf"\[{_TEXT}(?:, {_TEXT})*\]"
_NAMES = r"[\w.-]*\w(?:,[\w.-]*\w)*"  # without quotes: LOSS_POSSIBLE,DUPLICATES_POSSIBLE
_ANY = "|".join(_OPTIONS)
_PARAMETER = re.compile(
    rf"(?<![\w.-])(?:(?P<flag>allow_new_queries)=True"
    rf"|(?P<list>accept_verdicts|accept_unverified)=(?P<names>{_NAMES})"
    rf"|(?P<name>{_ANY})=(?P<value>{_TEXT}|{_MAP}|{_LIST}))"
    rf"(?P<more>, (?=(?:{_ANY})=))?"
)
_IMPLIED = ("accept_verdicts", "SAFE")  # the command always accepts it


def option_words(text: str) -> str:
    """Return *text* with options of the command in place of parameters of the operators. Pure."""
    return _PARAMETER.sub(_option, text)


def _option(match: re.Match[str]) -> str:
    if match["flag"]:
        words = [_OPTIONS[match["flag"]]]
    elif match["list"]:
        words = _repeated(match["list"], match["names"].split(","))
    else:
        try:
            value = ast.literal_eval(match["value"])
        except (ValueError, SyntaxError):
            return match[0]
        values = [f"{name}={each}" for name, each in value.items()] if isinstance(value, dict) else value
        words = _repeated(match["name"], [values] if isinstance(values, str) else values)
    return " ".join(words) + (" " if match["more"] else "") if words else match[0]


def _repeated(name: str, values: Iterable[str]) -> list[str]:
    return [f"{_OPTIONS[name]} {shlex.quote(value)}" for value in values if (name, value) != _IMPLIED]
