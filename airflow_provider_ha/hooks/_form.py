"""The connection form of Airflow 3.0 and 3.1, which know it only from methods of the hook.

Made from the same table as the metadata that later releases read (``get_provider_info``). Those have sections, too;
here the fields stand in the order of the table. wtforms is not Airflow's own any more. 3.1 stands in for it; 3.0 leaves
the fields out where it is not installed, and then their values go into *Extra*, as JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_provider_ha.get_provider_info import get_provider_info


def form_widgets() -> dict[str, Any]:
    """Return a field of wtforms for each extra field of the connection."""
    return {name: _widget(field) for name, field in _connection_type()["conn-fields"].items()}


def field_behaviour() -> dict[str, Any]:
    """Return how the standard fields look: later releases have dashes in these names."""
    return {key.replace("-", "_"): value for key, value in _connection_type()["ui-field-behaviour"].items()}


def _connection_type() -> dict[str, Any]:
    found: dict[str, Any] = get_provider_info()["connection-types"][0]
    return found


def _widget(field: Mapping[str, Any]) -> Any:
    # At each call: Airflow's API server puts fields in their places before it asks.
    import wtforms  # type: ignore[import-untyped]  # noqa: PLC0415  # only these releases need it
    from wtforms import validators  # noqa: PLC0415  # as above

    schema = field["schema"]
    checks = [validators.Optional(), *([validators.any_of(schema["enum"])] if "enum" in schema else [])]
    kinds = {
        "boolean": wtforms.BooleanField,
        "integer": wtforms.IntegerField,
        "number": wtforms.IntegerField,  # Airflow has no stand-in for a field of fractions
        "string": wtforms.StringField,
    }
    kind = wtforms.PasswordField if schema.get("format") == "password" else kinds[schema["type"][0]]
    return kind(field["label"], validators=checks, description=field["description"], default=schema.get("default"))
