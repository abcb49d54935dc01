"""Parameters of an operator that are derived from the model of its request."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.jobs.options.declared import (
    Mistake,
    mistakes,
    options_of,
    parameter_texts,
    refusal,
    unknown_option,
)
from airflow_provider_ha.operators._given import is_known


_Class = TypeVar("_Class", bound=type)
_Init = TypeVar("_Init", bound=Callable[..., None])


def takes(model: type[Any], *, without: Iterable[str] = ()) -> Callable[[_Init], _Init]:
    """Give an ``__init__`` with ``**kwargs`` one keyword for each option of *model*, before its own.

    :param without: Options that a base class has.
    """

    def decorate(init: _Init) -> _Init:
        own = list(inspect.signature(init).parameters.values())
        derived = [
            inspect.Parameter(
                each.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if each.field.is_required() else each.default,
                annotation=each.field.annotation,
            )
            for each in options_of(model).values()
            if each.name not in set(without)
        ]
        init.__signature__ = inspect.Signature([own[0], *derived, *own[1:]])  # type: ignore[attr-defined]
        return init

    return decorate


def describes(model: type[Any], *, without: Iterable[str] = ()) -> Callable[[_Class], _Class]:
    """Add the descriptions of the options to the docstring of an operator."""

    def decorate(operator: _Class) -> _Class:
        text = parameter_texts(model, without)
        operator.__doc__ = f"{inspect.cleandoc(operator.__doc__ or '')}\n{text}"
        return operator

    return decorate


def split_options(
    model: type[Any], kwargs: Mapping[str, Any], without: Iterable[str] = ()
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the options of *model*, with defaults for those that are not in *kwargs*, and the rest of *kwargs*."""
    options = {name: each.default for name, each in options_of(model).items() if name not in set(without)}
    rest = {name: value for name, value in kwargs.items() if name not in options}
    return {name: kwargs.get(name, default) for name, default in options.items()}, rest


def set_up(
    task: Any, model: type[Any], kwargs: Mapping[str, Any], init: Callable[..., None], without: Iterable[str] = ()
) -> None:
    """Check the options of *model* in *kwargs*, call the ``__init__`` of the base class, and keep the options.

    :param without: As of :func:`takes`.
    :raises ConfigurationError: Values cannot be used; names all of them, those of the base class included.
    """
    options, rest = split_options(model, kwargs, without)
    unknown = unknown_parameters(type(task), rest)
    found = [*unknown.values(), *wrong_options(model, options)]
    try:
        init(**{name: value for name, value in rest.items() if name not in unknown})
    except ConfigurationError as error:
        refuse_all(rest.get("task_id"), found, error)
    refuse_all(rest.get("task_id"), found)
    for name, value in options.items():
        setattr(task, name, value)


def wrong_options(model: type[Any], given: Mapping[str, Any]) -> list[Mistake]:
    """Return the mistakes in values that are known when the DAG is parsed: no templates, no results of tasks."""
    return mistakes(model, {name: value for name, value in given.items() if is_known(value)})


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
