"""Every savepoint that can be made can be read under a lease."""

from __future__ import annotations

import pytest

from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.names import SAVEPOINT_ID_LIMIT, check_savepoint_id
from airflow_provider_ha.storage.keys import JobKeys


PATHS = ClusterPaths("spark-ha", "default").job("flights")
LONGEST = "s" * SAVEPOINT_ID_LIMIT


def test_the_longest_id_has_a_node_and_a_lease() -> None:
    assert PATHS.savepoint(LONGEST).endswith(LONGEST)
    assert PATHS.leases(f"savepoint-{LONGEST}").endswith(LONGEST)


def test_a_longer_id_is_refused_wherever_it_would_be_made() -> None:
    longer = LONGEST + "s"

    for make in (check_savepoint_id, PATHS.savepoint, JobKeys("flights").savepoint):
        with pytest.raises(ConfigurationError, match="has 119 characters") as caught:
            make(longer)
        assert "at most 118 characters" in caught.value.next_step
