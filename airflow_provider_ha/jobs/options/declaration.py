"""Options of a request, declared once: fields of a pydantic model, read from a task, a command or a template.

A field is the only declaration of its option's name, type, default, checks and description. Operators and commands
derive their parameters from :func:`options_of`. A field may be a model: a group of options.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from difflib import get_close_matches
from enum import Enum
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, Field, TypeAdapter, ValidationError, ValidationInfo
from pydantic.fields import FieldInfo

from airflow_provider_ha.errors import ApplicationRefusedError, ConfigurationError


# For a field that users do not set: the comment of the field names its source.
INTERNAL: dict[str, Any] = {"internal": True}
WRITTEN = {"written": True}  # validation context for values from a user
_SECRET = frozenset({"arguments", "conf", "env", "lineage"})  # their values are not shown in errors
_KINDS = {  # prefix of pydantic's error type -> reason, next step
    "bool": ("is neither true nor false", "Use True or False"),
    "int": ("is not a whole number", "Write a whole number"),
    "float": ("is not a number", "Write a number, or a duration as a timedelta"),
    "finite": ("is not a number", "Write a number"),
    "string": ("is no text", "Write text"),
    "tuple": ("is no list", "Write a list"),
    "frozen": ("is no list", "Write a list"),
}
_BOUNDS = {"ge": "Use {} or more", "gt": "Use more than {}", "le": "Use {} or less"}
_Model = TypeVar("_Model")
_Found = TypeVar("_Found")


class Option(NamedTuple):
    """An option of a model.

    :param name: Its name, unique in the model and its groups.
    :param group: Field of the model that holds the option; empty for the model itself.
    """

    name: str
    group: str
    field: FieldInfo

    @property
    def shown(self) -> Mapping[str, Any]:
        """Presentation of the option in operator and command.

        Keys: ``holder``, ``group``, ``metavar``, ``command`` (its description in the command), ``of_task``.
        """
        extra = self.field.json_schema_extra
        return extra if isinstance(extra, dict) else {}

    @property
    def holder(self) -> str:
        """Parameter of an operator that holds the option; empty for an option with a parameter under its own name."""
        return str(self.shown.get("holder", ""))

    @property
    def of_task(self) -> bool:
        """Whether it is an option of the task that makes the request, and not of the job; a command has none."""
        return bool(self.shown.get("of_task"))

    @property
    def default(self) -> Any:
        """The default in the types of a DAG file; ``None`` where the connection may give it."""
        if self.shown.get("connection"):
            return None
        return plain(self.field.get_default(call_default_factory=True))


@dataclass(frozen=True, slots=True)
class Mistake:
    """An invalid option.

    :param reason: Name of the option, its value unless secret, and the error.
    """

    reason: str
    next_step: str


def option(default: Any, description: str, *, shown: Mapping[str, Any] | None = None, **checks: Any) -> Any:
    """Declare an option of a model.

    :param default: Its default; ``...`` for a required option.
    :param shown: As :attr:`Option.shown`.
    :param checks: Bounds, as ``pydantic.Field`` takes them.
    """
    return Field(default, description=description, json_schema_extra=dict(shown or {}), **checks)


_of_model: dict[type[Any], Mapping[str, Option]] = {}  # each task of a DAG asks several times


def options_of(model: type[Any]) -> Mapping[str, Option]:
    """Return name -> option in the order of declaration, including options in groups, without internal fields."""
    if model not in _of_model:
        _of_model[model] = MappingProxyType(_declared(model))
    return _of_model[model]


def _declared(model: type[Any]) -> dict[str, Option]:
    found: dict[str, Option] = {}
    for name, field in model.__pydantic_fields__.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            found.update({inner.name: inner._replace(group=name) for inner in options_of(kind).values()})
        elif not (isinstance(field.json_schema_extra, dict) and field.json_schema_extra.get("internal")):
            found[name] = Option(name, "", field)
    return found


def parameter_texts(model: type[Any], without: Iterable[str] = ()) -> str:
    """Return the descriptions of the options as the ``:param`` lines of a docstring; a holder lists its options."""
    held: dict[str, list[Option]] = {}
    for each in options_of(model).values():
        if each.name not in set(without):
            held.setdefault(each.holder or each.name, []).append(each)
    texts_of = {name: _parameter_text(name, options) for name, options in held.items()}
    return "\n".join(f":param {name}: {text}" for name, text in texts_of.items())


def _parameter_text(name: str, options: Sequence[Option]) -> str:
    if options[0].name == name:
        return str(options[0].field.description)
    named = ", ".join(f"``{each.name}``" for each in options)
    return f"A mapping or a model with any of {named}; the page of options describes each."


def spread(model: type[Any], given: Mapping[str, Any]) -> tuple[dict[str, Any], list[Mistake]]:
    """Return option -> value for parameters of an operator, including the values in holders, and the mistakes.

    :param given: Parameter -> value. A holder is a mapping, a pydantic model, or JSON text from a template.
    """
    options = options_of(model)
    holders = {each.holder for each in options.values()} - {""}
    found: dict[str, Any] = {}
    wrong: list[Mistake] = []
    for name, value in given.items():
        if name not in holders:
            found[name] = value
            continue
        inner = held_values(value)
        if inner is None:
            wrong.append(Mistake(f"{name} is no mapping", f"Write {name}={{option: value}}"))
            continue
        known = [each.name for each in options.values() if each.holder == name]
        wrong += [unknown_option(key, known) for key in inner if key not in known]
        found.update({key: each for key, each in inner.items() if key in known})
    return found, wrong


def held_values(value: Any) -> dict[str, Any] | None:
    """Return option -> value of a holder; ``None`` if the value is no mapping."""
    if isinstance(value, BaseModel):
        return value.model_dump(exclude_unset=True)
    if isinstance(value, str) and not is_left_out(value):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    if is_left_out(value):
        return {}
    return {str(key): each for key, each in value.items()} if isinstance(value, Mapping) else None


def mistakes(model: type[Any], given: Mapping[str, Any]) -> list[Mistake]:
    """Return the mistakes in *given*, where required options may be missing because templates are not rendered yet."""
    _, found = _validated(model, given, partial=True)
    return found


def read(model: type[_Model], given: Mapping[str, Any], *, subject: str, **internal: Any) -> _Model:
    """Return the request for the given values: text, numbers, durations, or ``None`` for a default.

    :param subject: Subject of the error, for example ``the submission of job 'orders'``.
    :param internal: Fields that are no options.
    :raises ConfigurationError: An option is invalid; the message has all invalid options.
    """
    made, found = _validated(model, given, internal=internal)
    if made is None:
        raise refusal(subject, found)
    return made


def refusal(subject: str, found: Iterable[Mistake]) -> ConfigurationError:
    """Return a single error for all mistakes of a request."""
    all_ = list(dict.fromkeys(found))
    return ConfigurationError(
        f"{subject} cannot be used: {'; '.join(each.reason for each in all_)}",
        next_step="; ".join(dict.fromkeys(each.next_step for each in all_)),
    )


def all_of(checks: Iterable[Callable[[], _Found]]) -> list[_Found]:
    """Return the results of all checks.

    :raises ConfigurationError, ApplicationRefusedError: Checks refuse; a single error has all their messages.
    """
    found: list[_Found] = []
    refused: list[ConfigurationError | ApplicationRefusedError] = []
    for check in checks:
        try:
            found.append(check())
        except (ConfigurationError, ApplicationRefusedError) as error:  # noqa: PERF203  # each is reported
            refused.append(error)
    messages = list(dict.fromkeys(error.message for error in refused))
    if len(messages) == 1:
        raise refused[0]
    if messages:
        steps = dict.fromkeys(error.next_step for error in refused if error.next_step)
        raise type(refused[0])("; ".join(messages), next_step="; ".join(steps))
    return found


def unknown_option(name: str, known: Iterable[str]) -> Mistake:
    """Return the mistake of an unknown option, with the nearest known name."""
    names = sorted(known)
    nearest = get_close_matches(name, names, n=1, cutoff=0.5)
    step = f"Write {nearest[0]!r}" if nearest else f"Remove it; there are {', '.join(names)}"
    return Mistake(f"there is no option {name!r}", step)


def plain(value: Any) -> Any:
    """Return a value in the types of a DAG file. Pure."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (set, frozenset)):
        return tuple(sorted(plain(each) for each in value))
    if isinstance(value, (list, tuple)):
        return tuple(plain(each) for each in value)
    return value


def is_left_out(value: Any) -> bool:
    """Return whether a value means the default: ``None``, or a template that rendered to an empty text. Pure."""
    return value is None or (isinstance(value, str) and value.strip() in {"", "None"})


def words(value: Any, info: ValidationInfo) -> tuple[str, ...]:
    """Validate a list of words; refuse a text, which would be read as a list of letters."""
    if isinstance(value, str):
        written = "..." if info.field_name in _SECRET else repr(value)
        raise ConfigurationError("is text, but must be a list", next_step=f"Write {info.field_name}=[{written}]")
    if not isinstance(value, Iterable) or isinstance(value, Mapping):
        raise ConfigurationError("is no list", next_step=f"Write {info.field_name}=[...]")
    return tuple(str(plain(each)) for each in value)


def names(value: Any, info: ValidationInfo) -> frozenset[str]:
    """Validate a set of names."""
    if isinstance(value, (str, Mapping)) or not isinstance(value, Iterable):
        raise ConfigurationError("is no list", next_step=f"Write {info.field_name}=[...]")
    found = frozenset(value)
    if not all(isinstance(each, str) and each for each in found):
        raise ConfigurationError("has a value that is no name", next_step="Write names as text")
    return found


def texts(value: Any, info: ValidationInfo) -> dict[str, str]:
    """Validate a mapping of names to text, numbers and flags, and return the values as text."""
    if not isinstance(value, Mapping):
        raise ConfigurationError("is no mapping", next_step=f"Write {info.field_name}={{name: value}}")
    for name, each in value.items():
        if not isinstance(name, str) or not name:
            raise ConfigurationError(f"has the key {name!r}", next_step="Write names as text")
        if not isinstance(each, (str, int, float)):
            raise ConfigurationError(
                f"has for {name!r} a value of type {type(each).__name__}", next_step="Write text or a number"
            )
    return {name: str(each) for name, each in value.items()}


def _validated(
    model: type[_Model],
    given: Mapping[str, Any],
    *,
    partial: bool = False,
    internal: Mapping[str, Any] | None = None,
) -> tuple[_Model | None, list[Mistake]]:
    known = options_of(model)
    found = [unknown_option(name, known) for name in given if name not in known]
    values: dict[str, Any] = dict(internal or {})
    for name, value in given.items():
        if name in known and not is_left_out(value):
            place = values.setdefault(known[name].group, {}) if known[name].group else values
            place[name] = value.total_seconds() if isinstance(value, timedelta) else value
    made = None
    try:
        made = TypeAdapter(model).validate_python(values, context=WRITTEN)
    except ValidationError as error:
        told = [item for item in error.errors(include_url=False) if not (partial and item["type"] == "missing")]
        found += [_mistake(item, known) for item in told]
    return (None if found else made), found


def _mistake(item: Any, known: Mapping[str, Option]) -> Mistake:
    """Convert an error of pydantic."""
    place = [part for part in item["loc"] if part in known] or [str(item["loc"][0])]
    name, context = str(place[-1]), item.get("ctx", {})
    if item["type"] == "missing":
        return Mistake(f"{name} is missing", f"Give {name}")
    secret = name in _SECRET or isinstance(item["input"], (Mapping, BaseModel))
    written = name if secret else f"{name}={item['input']!r}"
    cause = context.get("error")
    if isinstance(cause, ConfigurationError):
        begins = re.match(r"(is|has) ", cause.message)  # otherwise it is a full sentence with the value
        return Mistake(f"{written} {cause.message}" if begins else cause.message, cause.next_step or f"Correct {name}")
    if item["type"] == "enum":
        return Mistake(f"{written} is unknown", f"Choose from {context['expected']}")
    for bound, step in _BOUNDS.items():
        if bound in context:
            return Mistake(f"{written} is out of range", step.format(f"{context[bound]:g}"))
    kind = item["type"].partition("_")[0]
    reason, step = _KINDS.get(kind, (f"is refused ({item['msg']})", f"Correct {name}"))
    return Mistake(f"{written} {reason}", step)
