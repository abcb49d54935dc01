"""Parameters of operators: checks of values, options of requests, durations and secrets.

A value that is known when the DAG is parsed is checked then, so a mistake is an import error of the DAG and does not
fail a task at night.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from enum import Enum
from functools import partial
from typing import Any, TypeVar

from pydantic import BaseModel

from airflow_provider_ha.airflow_side.compat.sdk import BaseOperator, mask_secret
from airflow_provider_ha.argument_secrets import argument_secrets, secret_names
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.jobs.options.declaration import (
    Mistake,
    all_of,
    held_values,
    mistakes,
    options_of,
    parameter_texts,
    refusal,
    spread,
    unknown_option,
)


def seconds_of(given: timedelta | float | str | None, name: str) -> float | None:
    """Return a duration in seconds; ``None`` for a template that rendered to an empty text.

    :param name: Name of the parameter, for the error.
    :raises ConfigurationError: The value is not a duration above zero.
    """
    if isinstance(given, timedelta):
        value = given.total_seconds()
    elif given is None or str(given).strip() in {"", "None"}:
        return None
    else:
        try:
            value = float(given)
        except ValueError:
            value = math.nan
    if not 0 < value < math.inf:
        raise ConfigurationError(f"{name}={given!r} is not a duration", next_step="Use a timedelta, or seconds above 0")
    return value


class ArgumentSecrets(BaseOperator):
    """Part of the operators that start a script: warns of secrets in its arguments; not for DAGs."""

    arguments: Sequence[str] | None = None

    def _do_render_template_fields(self, parent: Any, *args: Any, **kwargs: Any) -> None:
        """Render the templates and mask secrets in the arguments: Airflow shows them before it executes the task.

        Airflow calls this method for each task. For a mapped task it does not call ``render_template_fields``.
        """
        super()._do_render_template_fields(parent, *args, **kwargs)
        if parent is self:  # otherwise a nested object, or a call before the arguments are rendered
            self._mask_arguments()

    def warn_of_argument_secrets(self) -> None:
        """Log which arguments look like secrets, without their values."""
        self._mask_arguments()
        for name in secret_names(self.argument_words()):
            self.log.warning(
                "The value of %s among the arguments looks like a secret. The job graph stores it in clear text. "
                "Give it in env, for example from a connection, and let the script read that variable",
                name,
            )

    def _mask_arguments(self) -> None:
        for secret in argument_secrets(self.argument_words()):
            mask_secret(secret)

    def argument_words(self) -> list[str]:
        """Return the arguments as the script receives them."""
        return [str(argument) for argument in self.arguments or ()]


_PLAIN = (str, int, float, timedelta, Enum)
_TEMPLATE = ("{{", "{%", "{#")


def check_given(task: Any, **checks: Callable[[Any], object]) -> None:
    """Check the attributes of a task that are set and not templates.

    :param checks: Attribute -> function that raises for an invalid value.
    :raises ConfigurationError: Values are invalid; the message names all.
    """
    given = {name: getattr(task, name) for name in checks}
    all_of(partial(checks[name], value) for name, value in given.items() if value not in (None, "") and is_known(value))


def is_known(value: Any) -> bool:
    """Return whether a value is final at parse time: no template and no result of another task. Pure."""
    if isinstance(value, str):
        return not any(sign in value for sign in _TEMPLATE)
    if isinstance(value, Mapping):
        return all(map(is_known, value.values()))
    if isinstance(value, (list, tuple, set, frozenset)):
        return all(map(is_known, value))
    return value is None or isinstance(value, _PLAIN)


def one_of(parameter: str, allowed: Collection[str]) -> Callable[[Any], None]:
    """Return a check that a word is an allowed one."""

    def check(value: Any) -> None:
        if value not in allowed:
            raise ConfigurationError(f"{parameter}={value!r} is unknown", next_step=f"Choose from {', '.join(allowed)}")

    return check


def whole_number(parameter: str) -> Callable[[Any], None]:
    """Return a check for a whole number, also as text."""

    def check(value: Any) -> None:
        if not str(value).strip().lstrip("-").isdigit():
            raise ConfigurationError(f"{parameter}={value!r} is not a whole number", next_step="Write digits")

    return check


def number_of(given: int | str | None, parameter: str) -> int | None:
    """Return a number that may come from a template; ``None`` when the template rendered to an empty text.

    :raises ConfigurationError: The value is not a whole number.
    """
    text = str(given).strip()
    if text in {"", "None"}:
        return None
    whole_number(parameter)(text)
    return int(text)


def number(parameter: str) -> Callable[[Any], None]:
    """Return a check for a number with or without a fraction, also as text."""

    def check(value: Any) -> None:
        try:
            float(value)
        except (TypeError, ValueError):
            raise ConfigurationError(f"{parameter}={value!r} is not a number", next_step="Write digits") from None

    return check


def above_zero(parameter: str) -> Callable[[Any], None]:
    """Return a check for a positive number of seconds."""

    def check(value: Any) -> None:
        number(parameter)(value)
        if not float(value) > 0:
            raise ConfigurationError(f"{parameter}={value!r} is not above zero", next_step="Use more than 0 seconds")

    return check


def not_negative(parameter: str) -> Callable[[Any], None]:
    """Return a check for a number of seconds that may be zero."""

    def check(value: Any) -> None:
        number(parameter)(value)
        if not float(value) >= 0:
            raise ConfigurationError(f"{parameter}={value!r} is below zero", next_step="Use 0 seconds or more")

    return check


def time_limit(parameter: str) -> Callable[[Any], None]:
    """Return a check for a longest wait that Airflow accepts."""

    def check(value: Any) -> None:
        if not isinstance(value, timedelta) or value <= timedelta(0):
            raise ConfigurationError(
                f"{parameter}={value!r} is not a valid wait", next_step="Use a timedelta above zero, or None"
            )

    return check


def lists(*parameters: str) -> dict[str, Callable[[Any], None]]:
    """Return checks for lists; a text in place of a list would be split into its letters."""

    def check(parameter: str, value: Any) -> None:
        if isinstance(value, str):
            raise ConfigurationError(
                f"{parameter}={value!r} is text, but must be a list", next_step=f"Write {parameter}=[{value!r}]"
            )

    return {parameter: partial(check, parameter) for parameter in parameters}


def flag(parameter: str) -> Callable[[Any], None]:
    """Return a check for a boolean, also as text."""

    def check(value: Any) -> None:
        if isinstance(value, str) and value.strip().lower() not in WORDS:
            raise ConfigurationError(f"{parameter}={value!r} is neither true nor false", next_step="Use True or False")

    return check


WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False, "none": False, "": False}


_Class = TypeVar("_Class", bound=type)
_Init = TypeVar("_Init", bound=Callable[..., None])


def takes(model: type[Any], *, without: Iterable[str] = ()) -> Callable[[_Init], _Init]:
    """Give an ``__init__`` with ``**kwargs`` a keyword for each option of *model*, before its other parameters.

    Options with a holder share the keyword of the holder: ``ha={"restart_attempts": 3}``.

    :param without: Options that a base class declares.
    """

    def decorate(init: _Init) -> _Init:
        own = list(inspect.signature(init).parameters.values())
        derived: dict[str, inspect.Parameter] = {}
        for each in options_of(model).values():
            if each.name not in set(without):
                required = each.field.is_required()
                derived[each.holder or each.name] = inspect.Parameter(
                    each.holder or each.name,
                    inspect.Parameter.KEYWORD_ONLY,
                    default=inspect.Parameter.empty if required else None if each.holder else each.default,
                    annotation=Mapping[str, Any] | BaseModel | None if each.holder else each.field.annotation,
                )
        init.__signature__ = inspect.Signature([own[0], *derived.values(), *own[1:]])  # type: ignore[attr-defined]
        return init

    return decorate


def describes(model: type[Any], *, without: Iterable[str] = ()) -> Callable[[_Class], _Class]:
    """Add the descriptions of the options to the docstring of an operator."""

    def decorate(operator: _Class) -> _Class:
        operator.__doc__ = f"{inspect.cleandoc(operator.__doc__ or '')}\n{parameter_texts(model, without)}"
        return operator

    return decorate


def parameters_of(model: type[Any], without: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the parameters of an operator for the options of *model*: names and holders."""
    names = (each.holder or each.name for each in options_of(model).values() if each.name not in set(without))
    return tuple(dict.fromkeys(names))


def split_options(
    model: type[Any], kwargs: Mapping[str, Any], without: Iterable[str] = ()
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the parameters for *model*, with defaults for the missing ones, and the rest of *kwargs*.

    A model given for a holder becomes a mapping, which Airflow renders as a template.
    """
    declared = options_of(model)
    options: dict[str, Any] = {}
    for name in parameters_of(model, without):
        default = declared[name].default if name in declared else None
        value = kwargs.get(name, default)
        options[name] = held_values(value) if isinstance(value, BaseModel) else value
    return options, {name: value for name, value in kwargs.items() if name not in options}


def set_up(
    task: Any,
    model: type[Any],
    kwargs: Mapping[str, Any],
    init: Callable[..., None],
    *,
    without: Iterable[str] = (),
) -> None:
    """Check the options of *model* in *kwargs*, call the ``__init__`` of the base class, and store the options.

    Options of the task are parameters of the base class: a holder with known values gives them up here, a template
    after it is rendered (:func:`take_task_options`).

    :param without: As in :func:`takes`.
    :raises ConfigurationError: Values are invalid; the message names all, with the base class's own.
    """
    options, rest = split_options(model, kwargs, without)
    holders = {name: each.holder for name, each in options_of(model).items() if each.holder}
    unknown = unknown_parameters(type(task), rest)
    unknown |= {name: _misplaced(name, holders[name]) for name in rest if name in holders}
    for name, holder in _of_task(model).items():
        if isinstance(held := options[holder], Mapping) and name in held:
            rest[name] = held[name]
            options[holder] = {key: value for key, value in held.items() if key != name}
    found = [*unknown.values(), *wrong_options(model, options)]
    try:
        init(**{name: value for name, value in rest.items() if name not in unknown})
    except ConfigurationError as error:
        refuse_all(rest.get("task_id"), found, error)
    refuse_all(rest.get("task_id"), found)
    for name, value in options.items():
        setattr(task, name, value)


def given_options(task: Any, model: type[Any], subject: str, without: Iterable[str] = ()) -> dict[str, Any]:
    """Return option -> value of a task, from its rendered parameters.

    :param subject: As in :func:`~airflow_provider_ha.jobs.options.declaration.read`.
    :raises ConfigurationError: A holder is not a mapping, or has unknown options.
    """
    given, wrong = spread(model, {name: getattr(task, name) for name in parameters_of(model, without)})
    if wrong:
        raise refusal(subject, wrong)
    return given


def take_task_options(task: Any, model: type[Any]) -> None:
    """Set the options of the task that a holder has as text of a rendered template."""
    for name, holder in _of_task(model).items():
        if name in (held := held_values(getattr(task, holder)) or {}):
            setattr(task, name, held[name])


def _of_task(model: type[Any]) -> dict[str, str]:
    """Return option of the task -> holder."""
    return {name: each.holder for name, each in options_of(model).items() if each.of_task}


def _misplaced(name: str, holder: str) -> Mistake:
    return Mistake(f"{name} is an option of {holder}", f"Write {holder}={{{name!r}: ...}}")


def wrong_options(model: type[Any], given: Mapping[str, Any]) -> list[Mistake]:
    """Return the mistakes in values that are known when the DAG is parsed: no templates, no results of tasks."""
    holders = {each.holder for each in options_of(model).values()}
    known = {
        name: value
        for name, value in given.items()
        if is_known(value) or (name in holders and isinstance(value, Mapping))
    }
    values, misplaced = spread(model, known)
    return [*misplaced, *mistakes(model, {name: value for name, value in values.items() if is_known(value)})]


def unknown_parameters(operator: type, kwargs: Iterable[str]) -> dict[str, Mistake]:
    """Return keyword -> mistake for each keyword that no ``__init__`` of an operator accepts."""
    known = {
        name
        for kind in operator.__mro__
        if "__init__" in vars(kind) and kind is not object
        for name, each in inspect.signature(vars(kind)["__init__"]).parameters.items()
        if each.kind is not inspect.Parameter.VAR_KEYWORD and name != "self"
    }
    return {name: unknown_option(name, known) for name in kwargs if name not in known and not name.startswith("_")}


def refuse_all(task_id: Any, found: Iterable[Mistake], also: ConfigurationError | None = None) -> None:
    """Refuse a task with all mistakes of its request.

    :param also: Mistakes that a base class found.
    :raises ConfigurationError: There are mistakes.
    """
    all_ = [*found, *([Mistake(also.message, also.next_step)] if also is not None else [])]
    if all_:
        raise refusal(f"task {task_id!r}", all_)
