"""A supervisor on a worker of a cluster that does not say how to reach ZooKeeper: its only word is what it prints."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_provider_ha.host.supervisor.main import REFUSED
from airflow_provider_ha.jobs.drivers.driver_home import (
    CONFIG_FILE_VARIABLE,
    HANDLE_VARIABLE,
    HOME_OPTION,
    TICKET_VARIABLE,
    ConfigSource,
    Ticket,
)
from airflow_provider_ha.jobs.drivers.driver_spec import SUPERVISOR_MODULE
from airflow_provider_ha.jobs.job_graph import Blob
from airflow_provider_ha.jobs.runs.submissions import DriverHandle


TICKET = Ticket(
    job_id="orders",
    run=3,
    attempt=2,
    submission_id="s" * 32,
    graph=Blob(sha256="0" * 64, size=1),
    config=ConfigSource.MACHINE,
)
HANDLE = DriverHandle(engine="standalone")
NOT_STARTED = "attempt 2 of run 3 of job 'orders' is not started, and ZooKeeper has no record of this"


def started(directory: Path, **variables: str) -> tuple[int, list[str]]:
    """Start a supervisor as a worker does; return its exit code and what it prints."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_HA_")}
    done = subprocess.run(
        [sys.executable, "-m", SUPERVISOR_MODULE, HOME_OPTION, str(directory / "attempt-2")],
        env=clean | {TICKET_VARIABLE: TICKET.model_dump_json(), HANDLE_VARIABLE: HANDLE.model_dump_json(), **variables},
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.returncode, done.stderr.splitlines()


def test_a_file_that_is_not_there_is_named_with_the_next_step(tmp_path: Path) -> None:
    file = tmp_path / "spark-ha.json"

    code, printed = started(tmp_path, **{CONFIG_FILE_VARIABLE: str(file)})

    assert (code, len(printed)) == (REFUSED, 1)
    assert NOT_STARTED in printed[0]
    assert f"{str(file)!r} cannot be read (No such file or directory)" in printed[0]
    assert f"Write {file} on this worker, for the user of the worker" in printed[0]
    assert "config_file" in printed[0]
    assert not (tmp_path / "attempt-2").exists()


def test_a_file_that_others_may_read_is_named_and_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "spark-ha.json"
    file.write_text('{"digest_auth": "spark:secret"}')
    file.chmod(0o644)

    code, printed = started(tmp_path, **{CONFIG_FILE_VARIABLE: str(file)})

    assert (code, len(printed)) == (REFUSED, 1)
    assert f"chmod 600 {file}" in printed[0]
    assert "secret" not in printed[0].replace("holds secrets", "")


@pytest.mark.parametrize("variables", [{}, {"SPARK_HA_ZOOKEEPER": "zk:2181"}], ids=["none", "half"])
def test_neither_file_nor_variables_are_named_with_the_next_step(tmp_path: Path, variables: dict[str, str]) -> None:
    code, printed = started(tmp_path, **variables)

    assert (code, len(printed)) == (REFUSED, 1)
    assert NOT_STARTED in printed[0]
    assert "engine option 'config_file'" in printed[0]
