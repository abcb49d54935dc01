"""The fields of the connection form on Airflow 3.0 and 3.1, which wtforms has to know."""

from __future__ import annotations

import wtforms  # type: ignore[import-untyped]

from airflow_provider_ha.get_provider_info import get_provider_info
from airflow_provider_ha.hooks._connection import form_widgets


KINDS = {
    "boolean": wtforms.BooleanField,
    "integer": wtforms.IntegerField,
    "number": wtforms.IntegerField,
    "string": wtforms.StringField,
}


def test_every_field_of_the_metadata_is_a_field_of_its_kind() -> None:
    table = get_provider_info()["connection-types"][0]["conn-fields"]

    made = {name: field.field_class for name, field in form_widgets().items()}

    assert made == {
        name: wtforms.PasswordField
        if field["schema"].get("format") == "password"
        else KINDS[field["schema"]["type"][0]]
        for name, field in table.items()
    }
