"""Options of a command that are derived from the model of its request."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import wraps
from types import NoneType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

from airflow_provider_ha.jobs.options.declaration import Option, options_of


_SINGLE = (int, float, bool)


def takes(model: type[Any], **arguments: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace the parameter ``words`` of a command by one parameter for each option of *model*.

    The command gets option -> value as ``words``; ``None`` for an option that is left out.

    :param arguments: Positional arguments of the command, by the name of their option: annotation of the parameter.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(command, include_extras=True)
        own = {name: each for name, each in inspect.signature(command).parameters.items() if name != "words"}
        options = options_of(model)
        context, *rest = [
            each.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[name]) for name, each in own.items()
        ]
        derived = [_parameter(each, arguments.get(name)) for name, each in options.items()]
        derived.sort(key=lambda each: each.name not in arguments)

        @wraps(command)
        def called(**given: Any) -> None:
            words = {name: given.pop(name) for name in options}
            command(words=words, **given)

        shown = [context, *derived, *rest]
        called.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
        called.__annotations__ = {each.name: each.annotation for each in shown}
        return called

    return decorate


def _parameter(option: Option, argument: Any) -> inspect.Parameter:
    """Return the parameter of a command for an option."""
    required = option.field.is_required()
    default = inspect.Parameter.empty if required else None
    annotation = argument if argument is not None else _annotation(option)
    return inspect.Parameter(option.name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _annotation(option: Option) -> Any:
    kind, word = _kind(option.field.annotation), f"--{option.name.replace('_', '-')}"
    named = option.shown.get("words", (word,))
    settings: dict[str, Any] = {"help": help_text(option)}
    if kind is bool:
        named = (f"{word}/--no-{word[2:]}",)
    for name, setting in (("group", "rich_help_panel"), ("metavar", "metavar")):
        if option.shown.get(name):
            settings[setting] = option.shown[name]
    return Annotated[kind if option.field.is_required() else kind | None, typer.Option(*named, **settings)]


def help_text(option: Option) -> str:
    """Return the description of an option for a terminal, with its default."""
    text = option.shown.get("command") or option.field.description or ""
    text = re.sub(r"(?<![\w*])\*(\w+)\*(?![\w*])", lambda found: f"--{found[1].replace('_', '-')}", text)
    text = text.replace("``", "`").replace("[", "\\[")
    if option.field.is_required():
        return text
    default = option.default
    if "default" in text.lower() or default in (None, (), {}, ("SAFE",)) or isinstance(default, Enum):
        return text
    if isinstance(default, bool):
        default = "yes" if default else "no"
    return f"{text} Default: {default:g}." if isinstance(default, float) else f"{text} Default: {default}."


def _kind(annotation: Any) -> Any:
    """Return the type of the parameter for the type of an option: one value, or a list of words."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _kind(parts[0])
    if isinstance(annotation, type) and issubclass(annotation, (*_SINGLE, Enum)):
        return annotation
    if origin in (tuple, frozenset) and isinstance(parts[0], type) and issubclass(parts[0], Enum):
        return list[parts[0]]  # type: ignore[valid-type]
    if origin in (tuple, frozenset, dict, Mapping, Sequence):
        return list[str]
    kinds = [_kind(part) for part in parts if part is not NoneType]
    return next((kind for kind in kinds if kind is not str), str)
