"""The connection form as Airflow's own API describes it to its UI."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_ha.airflow_side.compat import AIRFLOW_V_3_2_PLUS
from airflow_provider_ha.get_provider_info import get_provider_info


pytestmark = pytest.mark.airflow


@pytest.fixture(scope="module")
def form() -> Any:
    from airflow.api_fastapi.core_api.services.ui.connections import HookMetaService

    return next(meta for meta in HookMetaService.hook_meta_data() if meta.connection_type == "spark_ha")


def test_the_standard_fields_show_both_that_are_required_and_no_port(form: Any) -> None:
    fields = form.standard_fields

    assert fields.host.title == "ZooKeeper hosts (required)"
    assert fields.url_schema.title == "Storage root (required)"
    assert not fields.host.hidden
    assert not fields.url_schema.hidden
    assert fields.port.hidden


def test_the_fields_below_are_those_of_the_metadata_in_their_order(form: Any) -> None:
    """Before Airflow 3.2 methods of the hook make them, from the same table."""
    table = get_provider_info()["connection-types"][0]["conn-fields"]

    shown = {name: field["schema"] for name, field in form.extra_fields.items()}

    assert list(shown) == list(table)
    assert {name: field["value"] for name, field in form.extra_fields.items()} == {
        name: field["schema"].get("default") for name, field in table.items()
    }
    assert [name for name, schema in shown.items() if schema.get("format") == "password"] == [
        "s3_secret_key",
        "digest_auth_also",
        "tls_key_password",
    ]
    assert shown["auth_scheme"]["enum"] == ["digest", "sasl"]
    assert all(
        schema.get("title", field["label"]) == field["label"]
        for schema, field in zip(shown.values(), table.values(), strict=True)
    )


@pytest.mark.skipif(not AIRFLOW_V_3_2_PLUS, reason="Airflow shows sections from 3.2 on")
def test_the_sections_below_begin_with_the_cluster_and_have_every_s3_setting(form: Any) -> None:
    sections = {name: field["schema"]["section"] for name, field in form.extra_fields.items()}

    assert list(sections)[:3] == ["work_root", "cluster_id", "root"]
    assert {name for name, section in sections.items() if section == "S3"} == {
        "s3_endpoint_url",
        "s3_region",
        "s3_path_style",
        "s3_access_key",
        "s3_secret_key",
    }
    assert form.extra_fields["s3_path_style"]["value"] is True
