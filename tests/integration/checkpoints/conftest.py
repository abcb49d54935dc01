"""A real S3 server for the tests of one file, and a bucket for one test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.s3.s3_server import S3Access, real_server


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Access]:
    with real_server() as access:
        yield access


@pytest.fixture
def bucket(s3: S3Access) -> str:
    return s3.new_bucket()
