"""Which roots a configuration may have, and which work area they mean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.areas.open_work_area import open_work_area
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.errors import ConfigurationError


S3_WORK: dict[str, Any] = {"work_root": "s3://b/live", "home_root": "file:///var/ha"}


def config(storage_root: str, **roots: Any) -> HaConfig:
    return HaConfig.build(zookeeper="127.0.0.1:1", storage_root=storage_root, **roots)


@pytest.mark.parametrize(
    ("storage", "roots", "reason"),
    [
        ("s3://b/ha", {}, "an s3:// storage root needs a work_root"),
        ("s3://b/ha", {"work_root": "s3://b/live"}, "give home_root as a file:// URI"),
        ("s3://b/ha", S3_WORK | {"home_root": "s3://b/home"}, "give home_root as a file:// URI"),
        ("s3://b/ha", S3_WORK | {"work_root": "s3://b/ha"}, "are nested"),
        ("s3://b/ha", S3_WORK | {"work_root": "s3://b/ha/live"}, "are nested"),
        ("s3://b/ha/blobs", S3_WORK | {"work_root": "s3://b/ha"}, "are nested"),
    ],
)
def test_roots_that_cannot_work_are_refused_with_what_to_give(storage: str, roots: Any, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        config(storage, **roots)


@pytest.mark.parametrize(
    ("roots", "area", "uri"),
    [
        ({}, "LinkedWorkArea", "file:///ha/default/jobs/j"),
        ({"work_root": "file:///live"}, "LinkedWorkArea", "file:///live/default/jobs/j"),
        (S3_WORK, "LayeredWorkArea", "has3a://b/live/default/jobs/j"),
    ],
)
def test_the_work_root_says_how_directories_are_made(roots: Any, area: str, uri: str) -> None:
    found = open_work_area(config("file:///ha", **roots))

    assert (type(found).__name__, found.uri("jobs/j")) == (area, uri)


def test_a_driver_keeps_its_files_where_its_home_is() -> None:
    assert config("s3://b/ha", **S3_WORK).home_path == Path("/var/ha/default")
    assert config("file:///ha").home_path == Path("/ha/default")
