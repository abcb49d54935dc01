"""Parameters of an operator that are derived from the model of its request."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

from pydantic import BaseModel

from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.jobs.options.declared import (
    Mistake,
    held_values,
    mistakes,
    options_of,
    parameter_texts,
    refusal,
    spread,
    unknown_option,
)
from airflow_provider_ha.operators._given import is_known


_Class = TypeVar("_Class", bound=type)
_Init = TypeVar("_Init", bound=Callable[..., None])
OfTask = Mapping[str, Sequence[str]]


def takes(model: type[Any], *, without: Iterable[str] = ()) -> Callable[[_Init], _Init]:
    """Give an ``__init__`` with ``**kwargs`` one keyword for each option of *model*, before its own.

    Options with a holder share the keyword of the holder: ``ha={"restart_attempts": 3}``.

    :param without: Options that a base class has.
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


def describes(
    model: type[Any], *, without: Iterable[str] = (), of_task: OfTask = MappingProxyType({})
) -> Callable[[_Class], _Class]:
    """Add the descriptions of the options to the docstring of an operator."""

    def decorate(operator: _Class) -> _Class:
        text = parameter_texts(model, without, of_task)
        operator.__doc__ = f"{inspect.cleandoc(operator.__doc__ or '')}\n{text}"
        return operator

    return decorate


def parameters_of(model: type[Any], without: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the parameters of an operator for the options of *model*: their names and holders."""
    names = (each.holder or each.name for each in options_of(model).values() if each.name not in set(without))
    return tuple(dict.fromkeys(names))


def split_options(
    model: type[Any], kwargs: Mapping[str, Any], without: Iterable[str] = ()
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the parameters for *model*, with defaults for those that are not in *kwargs*, and the rest of *kwargs*.

    A model that a holder was given becomes a mapping, which Airflow renders as a template.
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
    of_task: OfTask = MappingProxyType({}),
) -> None:
    """Check the options of *model* in *kwargs*, call the ``__init__`` of the base class, and keep the options.

    :param without: As of :func:`takes`.
    :param of_task: Holder -> parameters of the base class that the holder takes besides its options.
    :raises ConfigurationError: Values cannot be used; names all of them, those of the base class included.
    """
    options, rest = split_options(model, kwargs, without)
    holders = _holders(model, of_task)
    unknown = unknown_parameters(type(task), rest)
    unknown |= {name: _misplaced(name, holders[name]) for name in rest if name in holders}
    for holder, names in of_task.items():
        if isinstance(held := options[holder], Mapping):
            rest |= {name: held[name] for name in names if name in held}
            options[holder] = {name: value for name, value in held.items() if name not in names}
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

    :param subject: As of :func:`~airflow_provider_ha.jobs.options.declared.read`.
    :raises ConfigurationError: A holder is no mapping, or has unknown options.
    """
    given, wrong = spread(model, {name: getattr(task, name) for name in parameters_of(model, without)})
    if wrong:
        raise refusal(subject, wrong)
    return given


def _holders(model: type[Any], of_task: OfTask) -> dict[str, str]:
    """Return option -> holder."""
    declared = {name: each.holder for name, each in options_of(model).items() if each.holder}
    return declared | {name: holder for holder, names in of_task.items() for name in names}


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
    """Return keyword -> mistake for each keyword that no ``__init__`` of an operator takes."""
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

    :param also: Mistakes that a base class has found.
    :raises ConfigurationError: There are mistakes.
    """
    all_ = [*found, *([Mistake(also.message, also.next_step)] if also is not None else [])]
    if all_:
        raise refusal(f"task {task_id!r}", all_)
