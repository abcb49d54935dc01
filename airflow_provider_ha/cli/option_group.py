"""Options of a command as one value: a frozen dataclass whose fields carry their ``typer.Option`` or ``Argument``."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, get_type_hints

from airflow_provider_ha.cli.session import reported


def takes(group: type[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace the parameter ``words`` of a command by one parameter for each field of *group*.

    So an option cannot be declared without reaching the request.

    :param group: A dataclass. A field without a default is a required option or argument.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(group, include_extras=True)
        names = [each.name for each in dataclasses.fields(group)]
        own = {name: parameter for name, parameter in inspect.signature(command).parameters.items() if name != "words"}
        command_hints = get_type_hints(command, include_extras=True)

        @wraps(command)
        def called(**given: Any) -> None:
            words = {name: given.pop(name) for name in names}
            with reported(as_json=bool(given.get("as_json"))):
                made = group(**words)
            command(words=made, **given)

        options = [
            inspect.Parameter(
                each.name,
                inspect.Parameter.KEYWORD_ONLY,
                annotation=hints[each.name],
                default=inspect.Parameter.empty if each.default is dataclasses.MISSING else each.default,
            )
            for each in dataclasses.fields(group)
        ]
        shown = [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=command_hints[name])
            for name, parameter in own.items()
        ]
        called.__signature__ = inspect.Signature([shown[0], *options, *shown[1:]])  # type: ignore[attr-defined]
        called.__annotations__ = {each.name: each.annotation for each in (*shown, *options)}
        return called

    return decorate
