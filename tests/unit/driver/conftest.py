"""Fixtures that the tests of this folder share."""

from __future__ import annotations

import pytest

from tests.support.spark.started_queries import Started


@pytest.fixture
def spark() -> Started:
    return Started()
