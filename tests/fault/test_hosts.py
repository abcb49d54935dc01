"""Host: missing tools, the embedded ZooKeeper, and the secret of a session."""

from __future__ import annotations

import base64
import json
import logging
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination import embedded
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.coordinator import Coordinator, Create, SessionCredentials
from airflow_provider_ha.coordination.embedded import EmbeddedZooKeeper
from airflow_provider_ha.coordination.raw_socket import close_session
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.host.java import find_jars
from airflow_provider_ha.jobs.drivers.driver_spec import read_session, write_session
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters import submit_helpers as helpers
from tests.support.clusters.coordination_helpers import session_through


BOOTSTRAP = Path(__file__).parents[2] / ".ci" / "bootstrap"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone in which nothing was installed yet."""
    clone = tmp_path / "clone"
    (clone / ".ci").mkdir(parents=True)
    shutil.copy(BOOTSTRAP, clone / ".ci" / "bootstrap")
    return clone


@pytest.fixture
def small_disk(clone: Path) -> Iterator[Path]:
    """The clone's build folder on a disk of 64 MB."""
    build = clone / "build"
    build.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(build)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("only root can mount a small disk")
    yield build
    subprocess.run(["umount", str(build)], check=True)


def _bootstrap(clone: Path, **environment: str) -> tuple[int, str]:
    inherited = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "PYTHON")}
    done = subprocess.run(
        ["/bin/sh", str(clone / ".ci" / "bootstrap")],
        env=inherited | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout + done.stderr


def _tools_without_java(directory: Path) -> Path:
    """Return a directory of programs that has all that the script needs, but no Java."""
    directory.mkdir()
    for name in ("dirname", "mkdir", "cat", "cksum", "df", "awk", "sed", "head", "python3"):
        found = shutil.which(name)
        assert found, name
        (directory / name).symlink_to(found)
    return directory


def test_no_java(clone: Path, tmp_path: Path) -> None:
    code, said = _bootstrap(clone, PATH=str(_tools_without_java(tmp_path / "bin")))

    assert code == 1
    assert said == (
        "No Java was found: Spark 4 needs Java 17 or newer; "
        "install it (Debian: apt install openjdk-17-jre-headless) or set JAVA_HOME.\n"
    )


def test_a_java_that_is_too_old(clone: Path, tmp_path: Path) -> None:
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("""#!/bin/sh\necho 'openjdk version "11.0.2" 2019-01-15' >&2\n""")
    java.chmod(0o755)

    code, said = _bootstrap(clone, JAVA_HOME=str(tmp_path / "jdk"))

    assert code == 1
    assert said == f"Java 11 was found at {java}: Spark 4 needs Java 17 or newer; install it and set JAVA_HOME to it.\n"


def test_no_room_on_the_disk(clone: Path, small_disk: Path) -> None:
    (clone / "pyproject.toml").touch()
    (clone / "constraints.txt").touch()

    code, said = _bootstrap(clone)

    assert code == 1
    assert "MB are free below" in said
    assert "need 4 GB; make room or clone onto another disk." in said
    assert list(small_disk.iterdir()) == []


def test_no_python_that_fits(clone: Path, tmp_path: Path) -> None:
    tools = _tools_without_java(tmp_path / "bin")
    (tools / "python3").unlink()
    (tools / "java").symlink_to(shutil.which("java") or "java")
    (clone / "pyproject.toml").touch()
    (clone / "constraints.txt").touch()

    code, said = _bootstrap(clone, PATH=str(tools))

    assert code == 1
    assert "No Python 3.10 to 3.13 was found: install one" in said


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


@pytest.fixture
def job(
    config: HaConfig, coordinator: Coordinator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[JobContext]:
    monkeypatch.setenv("SPARK_HOME", str(helpers.stand_in_spark(tmp_path / "spark")))
    context = helpers.context(config, coordinator)
    helpers.submit(context, helpers.script(tmp_path), mode="wait")
    yield context
    helpers.kill_all(context)


def spellings(credentials: SessionCredentials) -> list[bytes]:
    """Every way in which the password could be written down."""
    password = credentials.password
    return [password, password.hex().encode(), base64.b64encode(password), repr(password).encode()]


def found(credentials: SessionCredentials, places: dict[str, bytes]) -> list[str]:
    return [name for name, content in places.items() if any(text in content for text in spellings(credentials))]


def files(job: JobContext) -> dict[str, bytes]:
    """Everything that the job has on storage and in its working directories."""
    root = job.config.work_path
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def what_others_see(pids: list[int]) -> dict[str, bytes]:
    """What every user of the host can read about a process, and what its children inherit."""
    seen = {}
    for process in (psutil.Process(pid) for pid in pids):
        seen[f"command line of {process.pid}"] = "\0".join(process.cmdline()).encode()
        seen[f"environment of {process.pid}"] = json.dumps(process.environ()).encode()
    return seen


def nodes(coordinator: Coordinator, path: str) -> dict[str, bytes]:
    below = [nodes(coordinator, f"{path}/{name}") for name in coordinator.children(path)]
    return {path: coordinator.get(path).data} | {name: data for part in below for name, data in part.items()}


def test_the_password_lies_in_one_private_file_as_long_as_the_driver_lives_and_then_nowhere(
    job: JobContext, coordinator: Coordinator
) -> None:
    python = wait_until(lambda: helpers.pid_in(job, "driver.pid"), timeout=20, what="the driver")
    file = helpers.directory(job) / "session"
    credentials = read_session(file)
    assert credentials is not None
    pids = [process.pid for process in helpers.processes_of(job.runs.get(1).submissions[0].submission)]

    assert len(pids) >= 3
    assert found(credentials, what_others_see(pids)) == []
    assert found(credentials, files(job)) == [str(file.relative_to(job.config.work_path))]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700

    os.kill(python, signal.SIGKILL)
    wait_until(lambda: job.runs.get(1).submissions[0].exit, timeout=10, what="the exit")
    wait_until(lambda: not file.exists(), timeout=5, what="the removal of the session's file")  # right after the exit

    assert found(credentials, files(job) | nodes(coordinator, job.paths.base)) == []
    assert f"session 0x{credentials.session_id:x} of the dead driver: ended" in _log(job)


def _log(job: JobContext) -> str:
    return (helpers.directory(job) / "supervisor.log").read_text()


def test_the_file_is_private_from_its_first_byte_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write_session(tmp_path / "session", SessionCredentials(1, b"secret"))
    finally:
        os.umask(before)

    assert [stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()] == [0o600]


def test_the_password_is_in_no_log_at_the_lowest_level(config: HaConfig, caplog: pytest.LogCaptureFixture) -> None:
    """Kazoo writes passwords of sessions down at DEBUG, and we speak its protocol by hand."""
    caplog.set_level(logging.DEBUG)
    session = KazooCoordinator.connect(config)
    credentials = session.session
    assert credentials is not None
    session.drop_connection()  # connecting again sends the password
    session.find("/")

    assert close_session(config, credentials)
    session.close()

    assert "0x" in caplog.text
    assert found(credentials, {"log": caplog.text.encode(), "repr": repr(credentials).encode()}) == []
