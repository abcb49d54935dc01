"""A driver that is dead, and a supervisor that has to say so."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

from airflow_provider_ha.host.process_tree import Death
from airflow_provider_ha.jobs.drivers.driver_home import DriverHome
from airflow_provider_ha.jobs.job_records import JobRecords
from airflow_provider_ha.jobs.model import OperationKind
from airflow_provider_ha.jobs.operations import operations
from tests.engine_helpers import handle
from tests.fake.jobs import CONFIG, PATHS


SPEC: Any = SimpleNamespace(
    ticket=SimpleNamespace(is_standby=False),
    run=1,
    attempt=1,
    job_id="flights",
    home=DriverHome(Path("/nowhere")),
    handle=handle(),
    forget=lambda: None,
    config=CONFIG,
)


DEATH = Death(-9, (1, 2), "killed")


def failing(error: BaseException) -> Any:
    return MagicMock(side_effect=error)


def cancel_is_open(job: JobRecords, kind: OperationKind = OperationKind.CANCEL) -> None:
    operations.request(
        job.coordinator,
        PATHS,
        kind,
        operation_id="cancel-1",
        arguments={},
        requested_by="a person",
        clock=job.clock,
    )
