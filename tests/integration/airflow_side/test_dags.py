"""The DAGs that we ship are imported by a real Airflow, without what makes parsing slow."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


DAGS = Path(__file__).parents[3] / "dags"

PROGRAM = """
import json, sys
from airflow_provider_ha.airflow_side.compat import AIRFLOW_V_3_2_PLUS
if AIRFLOW_V_3_2_PLUS:
    from airflow.dag_processing.dagbag import DagBag
else:
    from airflow.models.dagbag import DagBag
bag = DagBag(sys.argv[1])
heavy = [name for name in ("kazoo", "boto3", "botocore", "pyspark") if name in sys.modules]
dags = {name: sorted(dag.task_ids) for name, dag in bag.dags.items()}
print(json.dumps({"dags": dags, "errors": bag.import_errors, "heavy": heavy}))
"""


@pytest.mark.airflow
def test_every_dag_is_imported_without_an_error_and_without_kazoo_boto3_or_pyspark(tmp_path: Path) -> None:
    environment = os.environ | {"AIRFLOW_HOME": str(tmp_path), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(DAGS)], capture_output=True, text=True, check=True, env=environment
    )

    found = json.loads(done.stdout.strip().splitlines()[-1])
    assert found["errors"] == {}
    assert found["heavy"] == []
    assert set(found["dags"]) == {
        "alerts",
        "flight_delays",
        "scheduled_savepoint",
        "stop_job",
        "disaster_recovery",
        "move_job",
        "recover_jobs",
        "restore_drill",
    }
