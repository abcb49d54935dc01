"""``spark-ha job move``: which cluster is meant, and what is shown of a move."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.cli.session import ClusterTarget, other_cluster
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.errors import ConfigurationError
from tests.integration.conftest import RECORDED_BATCH
from tests.support.checkpoints.checkpoint_helpers import Job
from tests.support.clusters.coordination_helpers import JOB
from tests.support.spark.recorded_job import QUERY


YES, NO = 0, 1
ACCEPTED = ("--accept-verdicts", "DUPLICATES_POSSIBLE", "--accept-verdicts", "LOSS_POSSIBLE")  # of foreachBatch


@pytest.fixture
def there(config: HaConfig, tmp_path: Path) -> Path:
    """The file that describes the new cluster."""
    other = HaConfig.model_validate({**config.model_dump(), "cluster_id": f"n-{new_id()[:12]}"})
    path = tmp_path / "there.json"
    path.touch(0o600)
    path.write_text(other.to_private_json())
    return path


def test_a_dry_run_is_shown_with_its_steps_and_bytes(spark_ha: Any, source: Job, there: Path) -> None:
    code, stdout, stderr = spark_ha("job", "move", JOB, "--to", str(there), "--dry-run", *ACCEPTED, "--json")

    assert (code, stderr) == (YES, "")
    shown = json.loads(stdout)
    assert (shown["state"], shown["source"], shown["cut"]) == ("planned", "checkpoint-1", {QUERY: RECORDED_BATCH})
    assert shown["bytes"] > 0
    assert len(shown["steps"]) == 3
    assert source.coordinator.find(source.paths.moved) is None


def test_a_dry_run_is_shown_to_people(spark_ha: Any, source: Job, there: Path) -> None:
    code, stdout, stderr = spark_ha("job", "move", source.paths.job_id, "--to", str(there), "--dry-run", *ACCEPTED)

    assert (code, stderr) == (YES, "")
    assert "3. start the job there from the copy" in stdout


def test_a_move_that_is_not_under_way_cannot_be_given_up(spark_ha: Any, source: Job, there: Path) -> None:
    code, _, stderr = spark_ha("job", "move", source.paths.job_id, "--to", str(there), "--abandon")

    assert code == NO
    assert "is not on its way" in stderr


def test_a_connection_is_named_to_airflow_only(there: Path) -> None:
    config = HaConfig.from_file(there)

    with pytest.raises(ConfigurationError, match="Airflow connection"):
        other_cluster(ClusterTarget(), "spark_ha_s3")

    assert other_cluster(ClusterTarget(named=lambda _: config), "spark_ha_s3") is config


def test_a_file_that_others_may_read_is_refused(there: Path) -> None:
    there.chmod(0o644)

    with pytest.raises(ConfigurationError, match="users other than its owner"):
        other_cluster(ClusterTarget(), str(there))
