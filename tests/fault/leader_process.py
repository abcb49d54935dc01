"""A leader as a separate process, for tests that kill or freeze it. Prints one JSON line per thing that happens.

It writes its status as often as it can, so that a write of a deposed leader would be seen.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.coordinator import SetData
from airflow_provider_ha.errors import LeadershipError, NotConnectedError, OutcomeUnknownError
from tests.support.clusters.coordination_helpers import job_paths, lead


def say(**facts: Any) -> None:
    print(json.dumps(facts), flush=True)  # read by the test


def main() -> None:
    config = HaConfig.build(**json.loads(sys.argv[1]))
    coordinator, status = KazooCoordinator.connect(config), job_paths(config).status
    leadership = lead(config, coordinator)
    coordinator.ensure(status)
    if "--write-only" not in sys.argv:
        leadership.start_heartbeats(lost)
    session = coordinator.session
    assert session is not None
    say(epoch=leadership.epoch, session=session.session_id, password=session.password.hex())
    while True:
        try:
            leadership.commit(SetData(status, f"epoch {leadership.epoch}".encode()))
        except (OutcomeUnknownError, NotConnectedError):
            continue  # repeating this write does no harm
        except LeadershipError as error:
            say(error=type(error).__name__)
            os._exit(3)
        time.sleep(0.02)  # a pace, not a wait


def lost(reason: str) -> None:
    say(lost=reason)
    os._exit(3)


if __name__ == "__main__":
    main()
