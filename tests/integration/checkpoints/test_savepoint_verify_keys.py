"""``savepoint verify --json`` prints one schema for a directory, a prefix of S3 and a managed job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.api.documents.verification import SavedQueryView, SavepointVerificationView
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator
from tests.support.checkpoints.checkpoint_helpers import led_job
from tests.support.checkpoints.portable_helpers import QUERY, savepoint
from tests.support.clusters.coordination_helpers import JOB
from tests.support.s3.s3_checkpoints import put_directory
from tests.support.s3.s3_server import S3Access
from tests.support.s3.savepoints import call
from tests.support.spark import recorded_job


pytestmark = pytest.mark.timeout(300)


def keys(document: dict[str, Any]) -> tuple[set[str], set[str], set[str]]:
    """Return the keys of a verification, of its only query, and of the report of that."""
    (query,) = document["queries"].values()
    return set(document), set(query), set(query["report"])


@pytest.fixture
def of_job(spark_ha: Any, config: HaConfig, coordinator: Coordinator, tmp_path: Path) -> dict[str, Any]:
    """The verification of a savepoint of a managed job."""
    with led_job(config, coordinator) as job:
        job.savepoints.create(
            job.leadership.commit, job.request("s1", 9), LocalTree(recorded_job.copy_live(tmp_path / "of-job"))
        )
        document: dict[str, Any] = json.loads(spark_ha("savepoint", "verify", JOB, "s1", "--json")[1])
    return document


def test_a_directory_a_prefix_and_a_managed_job_have_the_same_keys(
    of_job: dict[str, Any], s3: S3Access, bucket: str, tmp_path: Path
) -> None:
    directory, _ = savepoint(tmp_path)
    put_directory(s3, bucket, QUERY, tmp_path / "live" / QUERY)
    call(s3, "savepoint", "create", f"s3://{bucket}/{QUERY}", "--to", f"s3://{bucket}/savepoints/one")

    of_directory = json.loads(call(s3, "savepoint", "verify", str(directory), "--json"))
    of_prefix = json.loads(call(s3, "savepoint", "verify", f"s3://{bucket}/savepoints/one", "--json"))

    assert keys(of_directory) == keys(of_prefix) == keys(of_job)
    assert keys(of_prefix)[0] == set(SavepointVerificationView.model_fields)
    assert keys(of_prefix)[1] == set(SavedQueryView.model_fields)
    assert [(each["job_id"], each["restorable"]) for each in (of_directory, of_prefix, of_job)] == [
        ("", True),
        ("", True),
        (JOB, True),
    ]
