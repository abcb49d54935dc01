"""The embedded ZooKeeper: what it refuses, what it survives, and that it leaves nothing behind."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from airflow_provider_ha._process.java import find_jars
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Create
from airflow_provider_ha.coordination.embedded import EmbeddedZooKeeper
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters.coordination_helpers import session_through


PARENT = """
import sys, time
from pathlib import Path
from airflow_provider_ha.coordination.embedded import EmbeddedZooKeeper
print(EmbeddedZooKeeper(Path(sys.argv[1])).start().pid, flush=True)
time.sleep(60)
"""


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]

        with pytest.raises(ConfigurationError, match=f"port {port} .*in use.*another port"):
            EmbeddedZooKeeper(tmp_path, port=port).start()


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    jars = tmp_path / "jars"
    jars.mkdir()
    for jar in find_jars(None):
        if jar.name.startswith("zookeeper"):  # without what ZooKeeper itself needs
            (jars / jar.name).symlink_to(jar)

    with pytest.raises(ConfigurationError, match=r"ended while it started: .+Look into .+zookeeper\.log"):
        EmbeddedZooKeeper(tmp_path / "data", jars=jars).start()


def test_what_was_written_survives_the_death_of_the_server(config: HaConfig, tmp_path: Path) -> None:
    with EmbeddedZooKeeper(tmp_path / "zookeeper") as server:
        hosts, session = server.hosts, session_through(config, server.hosts)
        session.commit(Create("/kept", b"1"))

        server.kill()
        server.start()

        assert server.hosts == hosts
        assert session.get("/kept").data == b"1"
        session.close()


def test_the_server_dies_with_the_process_that_started_it(tmp_path: Path) -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    server = psutil.Process(int(parent.stdout.readline()))

    parent.kill()
    parent.wait()
    parent.stdout.close()

    try:
        wait_until(lambda: not server.is_running(), timeout=5, what="the server to die")
    finally:
        if server.is_running():
            server.kill()


def test_the_command_runs_until_it_is_told_to_end(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "airflow_provider_ha.testing.zookeeper", "--data-dir", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "listens on 127.0.0.1:" in process.stdout.readline()

        process.send_signal(signal.SIGINT)

        assert process.wait(15) == 0
