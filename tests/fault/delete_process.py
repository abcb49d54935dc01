"""A process that deletes a job and kills itself before one of its steps: a write to ZooKeeper, a removal of files.

Arguments: configuration, file for the session, job id, number of the step from 1, and ``all``, ``keep`` (the
savepoints), ``cluster``: then the whole cluster is erased, or a checkpoint of the job, which alone is deleted.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.checkpoints.areas.linked_work_area import LinkedWorkArea
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.fleet.cluster_leader import ClusterLeader
from airflow_provider_ha.fleet.cluster_removal import erase_cluster
from airflow_provider_ha.jobs.drivers.driver_spec import write_session
from airflow_provider_ha.jobs.removal import job_deletion
from airflow_provider_ha.storage.local_store import LocalStore


class Steps:
    """Counts the steps of the deletion, and ends the process before one of them."""

    def __init__(self, last: int) -> None:
        self.left = last

    def before(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*args, **kwargs)

        return counted


def main() -> int:
    config = HaConfig.build(**json.loads(sys.argv[1]))
    steps = Steps(int(sys.argv[4]))
    session = KazooCoordinator.connect(config)
    assert session.session is not None
    write_session(Path(sys.argv[2]), session.session)
    patched: Any
    for owner, name in (
        (KazooCoordinator, "commit"),
        (LinkedWorkArea, "remove"),
        (LocalStore, "delete"),
        (LocalStore, "write"),
    ):
        patched = owner
        setattr(patched, name, steps.before(getattr(patched, name)))
    patched = job_deletion
    patched.remove_tree = steps.before(patched.remove_tree)
    with HaClient(config, session) as client:
        if sys.argv[5] == "cluster":
            with ClusterLeader(client, by="test") as leader:
                leader.lead(timeout=0)
                erase_cluster(client, leader.leadership, by="test")
        elif sys.argv[5].startswith("checkpoint-"):
            job = client.job(sys.argv[3])
            job.delete_checkpoint(job.plan_checkpoint_deletion(sys.argv[5]), requested_by="test")
        else:
            client.job(sys.argv[3]).delete(requested_by="test", keep_savepoints=sys.argv[5] == "keep")
    return 0


if __name__ == "__main__":
    sys.exit(main())
