"""The connection form as Airflow's own API describes it to its UI."""

from __future__ import annotations

from typing import Any

import pytest


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
