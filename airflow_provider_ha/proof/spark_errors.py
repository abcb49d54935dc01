"""Errors of Spark as chains of throwables: pyspark keeps only the outermost, and the cause has the reason."""

from __future__ import annotations

from typing import Any

from airflow_provider_ha.checkpoints.proof.answers import SparkError


_DEEPEST = 20
_LONGEST = 500  # characters of a message


def chain(error: BaseException) -> tuple[SparkError, ...]:
    """Return an error of pyspark from the outermost throwable to its cause."""
    throwable = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    if throwable is None:
        return (SparkError(error_class=_condition(error) or type(error).__name__, message=_first_line(str(error))),)
    found: list[SparkError] = []
    while throwable is not None and len(found) < _DEEPEST:
        found.append(_read(throwable))
        throwable = throwable.getCause()
    return tuple(found)


def _read(throwable: Any) -> SparkError:
    name = str(throwable.getClass().getName())
    try:
        condition = throwable.getCondition()
    except Exception:  # noqa: BLE001  # only Spark's own throwables have one, and py4j has no other way to test that
        condition = None
    return SparkError(error_class=str(condition or name), message=_first_line(str(throwable.getMessage() or "")))


def _condition(error: BaseException) -> str | None:
    getter = getattr(error, "getCondition", None) or getattr(error, "getErrorClass", None)
    return getter() if getter is not None else None


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0][:_LONGEST]
