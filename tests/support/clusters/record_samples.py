"""Samples of records, with every field set."""

from __future__ import annotations

import ast
import importlib
import types
from datetime import datetime, timezone
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

import airflow_provider_ha
from airflow_provider_ha.records import Record


PACKAGE = Path(airflow_provider_ha.__file__).parent
AT = datetime(2013, 1, 1, 12, 30, tzinfo=timezone.utc)
# Values that a record checks.
_NAMED: dict[str, Any] = {
    "sha256": "0123456789abcdef" * 4,
    "kafka_bootstrap": "broker:9092",
    "standby_drivers": 2,
    "local_recovery_dir": "/copies",
}
_SIMPLE: dict[Any, Any] = {str: "text", int: 12, float: 1.5, bool: True, datetime: AT, Any: "anything"}


def record_types() -> dict[str, type[Record]]:
    """Return kind -> class of every record that the package defines, found in its source."""
    found: dict[str, type[Record]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and any(isinstance(b, ast.Name) and b.id == "Record" for b in node.bases):
                name = ".".join(["airflow_provider_ha", *path.relative_to(PACKAGE).with_suffix("").parts])
                record = getattr(importlib.import_module(name), node.name)
                found[record.kind] = record
    return found


def sample(model: type[BaseModel]) -> Any:
    """Return an instance with every field set."""
    return model.model_validate({name: _value(name, field.annotation) for name, field in model.model_fields.items()})


def _value(name: str, wanted: Any) -> Any:  # noqa: PLR0911  # one line per kind of type
    if wanted in (str, int) and isinstance(_NAMED.get(name), wanted):
        return _NAMED[name]
    if wanted in _SIMPLE:
        return _SIMPLE[wanted]
    origin, arguments = get_origin(wanted), get_args(wanted)
    if origin is Annotated:
        return _value(name, arguments[0])
    if origin is Literal:
        return arguments[0]
    if origin in (Union, types.UnionType):
        return _value(name, next(part for part in arguments if part is not type(None)))
    if origin is tuple:
        return tuple(_value(name, part) for part in arguments if part is not Ellipsis)
    if origin is dict:
        return {_value("key", arguments[0]): _value(name, arguments[1])}
    if issubclass(wanted, Enum):
        return next(iter(wanted))
    return sample(wanted)
