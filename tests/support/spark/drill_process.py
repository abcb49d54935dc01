"""A drill in a separate process, so that it can be killed: ``python -m tests.support.spark.drill_process CONFIG``."""

from __future__ import annotations

import sys
from pathlib import Path

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.jobs.verification.job_drill import DrillRequest, drill
from airflow_provider_ha.jobs.verification.job_verification import ProofOptions
from tests.support.clusters.coordination_helpers import JOB
from tests.support.clusters.submit_helpers import context


def main(config_file: Path) -> None:
    """Drill the job of the cluster that *config_file* describes, secrets included."""
    config = HaConfig.model_validate_json(config_file.read_bytes())
    coordinator = KazooCoordinator.connect(config)
    request = DrillRequest(drill_id="weekly", requested_by="killed", options=ProofOptions(heap="512m"))
    drill(context(config, coordinator, job_id=JOB), request)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
