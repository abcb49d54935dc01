"""The demo on a standalone cluster: kills of an executor, the driver, a master and a host; rows and state compared."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from tests.support.clusters.standalone_cluster import can_make_hosts
from tests.system.demo import run


@pytest.mark.system
@pytest.mark.hours
@pytest.mark.spark
@pytest.mark.timeout(1800)
@pytest.mark.skipif(not can_make_hosts(), reason="this host does not let a test make namespaces")
def test_the_main_job_survives_the_loss_of_everything_on_a_cluster(tmp_path: Path) -> None:
    assert run(tmp_path / "demo", Console(), on_a_cluster=True) == 0
