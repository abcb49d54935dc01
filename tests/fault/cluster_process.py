"""A process that contends to recover the jobs of a cluster, for tests that kill it.

Prints one JSON line per thing that happens. Its engine only writes down what it launches. As "settler" it does what the
task of the DAG ``recover_jobs`` does; else it watches.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.errors import LeadershipError
from airflow_provider_ha.fleet.cluster_leader import ClusterLeader
from airflow_provider_ha.fleet.reconciler import ReconcileOutcome, ReconcileResult, ReconcileTimings
from airflow_provider_ha.host.engines.registry import Engines
from tests.support.clusters.cluster_helpers import RecordingEngine


PATIENCE = ReconcileTimings(debounce=0.1, launch_timeout=1.0, start_timeout=600.0, poll=0.2, inspection=1.0, act=5.0)


def say(**facts: Any) -> None:
    print(json.dumps(facts), flush=True)  # read by the test


def report(attended: ReconcileResult) -> None:
    if attended.outcome is not ReconcileOutcome.PENDING:
        say(job_id=attended.job_id, outcome=attended.outcome.value, detail=attended.detail)


def main() -> int:
    config, record = HaConfig.build(**json.loads(sys.argv[1])), Path(sys.argv[2])
    client = HaClient(config, KazooCoordinator.connect(config), engines=Engines.only(RecordingEngine(record)))
    leader = ClusterLeader(client, by="test", address=sys.argv[3], patience=PATIENCE)
    say(contends=sys.argv[3])
    try:
        leader.lead(timeout=None)
        say(epoch=leader.epoch)
        if sys.argv[3] == "settler":
            leader.settle(60.0, report)
        else:
            leader.watch(threading.Event(), report)
    except LeadershipError as error:
        say(error=type(error).__name__)
    return 3


if __name__ == "__main__":
    sys.exit(main())
