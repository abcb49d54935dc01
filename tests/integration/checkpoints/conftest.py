"""A real S3 server for the tests of one file, and a bucket for one test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.s3.s3_server import S3Access, real_server
from tests.support.spark.kafka_server import Kafka, broker
from tests.support.spark.recorded_job import QUERY, copy_live


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Access]:
    with real_server() as access:
        yield access


@pytest.fixture
def bucket(s3: S3Access) -> str:
    return s3.new_bucket()


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    """One broker for all of them."""
    with broker() as running:
        yield running


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return copy_live(tmp_path / "live") / QUERY


@pytest.fixture
def live(tmp_path: Path) -> Path:
    return copy_live(tmp_path / "live")
