"""The embedded ZooKeeper: what it refuses, what it survives, and that it leaves nothing behind."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination import embedded
from airflow_provider_ha.coordination.coordinator import Create
from airflow_provider_ha.coordination.embedded import EmbeddedZooKeeper
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.host.java import find_jars
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


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(ConfigurationError, match=r"file/zookeeper .*\(Not a directory\).*may write to"):
        EmbeddedZooKeeper(tmp_path / "file" / "zookeeper").start()


def test_too_little_disk_is_said_before_the_server_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "_NEEDED_DISK", 2**62)
    server = EmbeddedZooKeeper(tmp_path)

    with pytest.raises(ConfigurationError, match=r"MB left, the embedded ZooKeeper needs \d+ MB.*another directory"):
        server.start()

    assert server.pid is None


def test_a_server_that_does_not_answer_in_time_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "_START_TIMEOUT", 0.0)
    server = EmbeddedZooKeeper(tmp_path)

    with pytest.raises(ConfigurationError, match=r"did not answer within 0 s.*zookeeper\.log"):
        server.start()

    assert server.pid is None


def test_a_server_that_never_started_has_no_port_and_nothing_to_end(tmp_path: Path) -> None:
    server = EmbeddedZooKeeper(tmp_path)

    server.stop()
    server.kill()

    with pytest.raises(ConfigurationError, match="Start it first"):
        _ = server.hosts


def test_a_server_that_ignores_the_request_to_end_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "_STOP_TIMEOUT", 0.1)
    server = EmbeddedZooKeeper(tmp_path)
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", deaf], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        server._process = process

        server.stop()

        assert process.returncode == -signal.SIGKILL


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
