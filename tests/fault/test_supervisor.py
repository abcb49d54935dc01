"""The supervisor's proof of death, with real processes, real signals and a real ZooKeeper.

"JVM", "Python" and "worker" are the stand-ins of ``tests.support.clusters.submit_helpers``; T is 3 s.
"""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.coordinator import Coordinator, SessionState
from airflow_provider_ha.coordination.embedded import EmbeddedZooKeeper
from airflow_provider_ha.driver.ending.exit_reason import ExitCode, write_failure
from airflow_provider_ha.host.supervisor.main import REFUSED
from airflow_provider_ha.jobs.drivers.driver_spec import SUPERVISOR_MODULE
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.runs.submissions import SubmissionExit
from airflow_provider_ha.testing.waiting import wait_until
from tests.engine_helpers import pid_of
from tests.support.clusters import submit_helpers as helpers


@pytest.fixture
def start(job: JobContext, tmp_path: Path) -> Callable[[str], None]:
    def start(mode: str) -> None:
        helpers.submit(job, helpers.script(tmp_path), mode=mode)

    return start


@pytest.fixture
def own_zookeeper(tmp_path: Path) -> Iterator[EmbeddedZooKeeper]:
    """A server that a test may kill: no other test uses it."""
    with EmbeddedZooKeeper(tmp_path / "zookeeper", tick_ms=200) as server:
        yield server


@pytest.fixture
def own_job(
    config: HaConfig, own_zookeeper: EmbeddedZooKeeper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[JobContext]:
    """A job on that server."""
    monkeypatch.setenv("SPARK_HOME", str(helpers.stand_in_spark(tmp_path / "spark")))
    here = config.model_copy(update={"zookeeper": own_zookeeper.hosts})
    session = KazooCoordinator.connect(here)
    context = helpers.context(here, session)
    yield context
    own_zookeeper.start()
    wait_until(lambda: session.state is SessionState.CONNECTED, timeout=20, what="a session")
    helpers.kill_all(context)
    session.close()


def pids(job: JobContext) -> dict[str, int]:
    """Wait until the whole tree is up, and return it."""
    names = {"jvm": "jvm.pid", "python": "driver.pid", "worker": "worker.pid"}
    for name in names.values():
        wait_until(partial(helpers.pid_in, job, name), timeout=20, what=name)
    tree = {role: helpers.pid_in(job, name) or 0 for role, name in names.items()}
    started = job.runs.get(1).submissions[0].started
    assert started is not None
    return tree | {"supervisor": pid_of(started)}


def exit_of(job: JobContext) -> SubmissionExit | None:
    return job.runs.get(1).submissions[0].exit


def session_node(job: JobContext) -> str:
    return f"/stand-in-{job.runs.get(1).submissions[0].submission.submission_id}"


@pytest.mark.parametrize("victim", ["python", "jvm"])
def test_whoever_of_the_two_dies_everything_is_dead_when_the_exit_can_be_read(
    job: JobContext, start: Callable[[str], None], victim: str
) -> None:
    start("wait")
    tree = pids(job)
    driver = [tree["jvm"], tree["python"], tree["worker"]]

    os.kill(tree[victim], signal.SIGKILL)
    found = wait_until(lambda: exit_of(job), timeout=10, what="the exit")

    assert not [pid for pid in driver if helpers.alive(pid)]
    assert set(driver) <= set(found.pids)
    # A JVM that learns of the end of its Python first ends by itself, with that code as a byte, and is named then.
    assert found.code in (-signal.SIGKILL, 256 - signal.SIGKILL)
    ended_by_itself = found.code == 256 - signal.SIGKILL
    assert str(tree["jvm" if ended_by_itself else victim]) in found.reason or str(tree[victim]) in found.reason


def test_the_dead_session_is_ended_before_the_exit_is_written(job: JobContext, start: Callable[[str], None]) -> None:
    start("wait")
    tree = pids(job)
    assert job.coordinator.find(session_node(job)) is not None

    os.kill(tree["python"], signal.SIGKILL)
    killed = time.monotonic()
    wait_until(lambda: exit_of(job), timeout=10, what="the exit")

    assert job.coordinator.find(session_node(job)) is None
    assert time.monotonic() - killed < job.config.timings.session_timeout - job.config.timings.heartbeat_interval
    # It goes last: when the exit could not be written, the next try needs it again.
    wait_until(lambda: not (helpers.directory(job) / "session").exists(), timeout=5, what="the end of the session file")


def test_sigterm_to_the_supervisor_kills_all_and_is_reported(job: JobContext, start: Callable[[str], None]) -> None:
    start("wait")
    tree = pids(job)

    os.kill(tree["supervisor"], signal.SIGTERM)
    found = wait_until(lambda: exit_of(job), timeout=10, what="the exit")

    assert not [pid for role, pid in tree.items() if role != "supervisor" and helpers.alive(pid)]
    assert "received a stop signal" in found.reason


def test_the_jvm_dies_with_its_supervisor_and_nothing_is_claimed(job: JobContext, start: Callable[[str], None]) -> None:
    start("wait")
    tree = pids(job)

    os.kill(tree["supervisor"], signal.SIGKILL)
    wait_until(lambda: not helpers.alive(tree["jvm"]), timeout=5, what="the death of the JVM")

    assert exit_of(job) is None


@pytest.mark.parametrize(("code", "outage"), [(ExitCode.OUTAGE, True), (ExitCode.FAILED, False)])
def test_exit_says_whether_the_driver_met_an_outage(
    job: JobContext, start: Callable[[str], None], code: ExitCode, outage: bool
) -> None:
    start("wait")
    tree = pids(job)
    write_failure(helpers.directory(job), code, "object 'a' could not be read: Stale file handle")

    os.kill(tree["python"], signal.SIGKILL)
    found = wait_until(lambda: exit_of(job), timeout=10, what="the exit")

    assert found.outage is outage
    assert "Stale file handle" in found.reason


@pytest.mark.parametrize("running", [True, False])
def test_exit_says_whether_the_job_was_running(job: JobContext, start: Callable[[str], None], running: bool) -> None:
    start("wait")
    tree = pids(job)
    if running:
        (helpers.directory(job) / "running").touch()

    os.kill(tree["python"], signal.SIGKILL)
    found = wait_until(lambda: exit_of(job), timeout=10, what="the exit")

    assert found.ran is running


def test_a_second_supervisor_of_one_driver_is_refused_and_touches_nothing(
    job: JobContext, start: Callable[[str], None]
) -> None:
    """It would close the session of the driver that lives, and write an exit: a false proof of its death."""
    start("wait")
    tree = pids(job)

    second = supervise(job)

    assert second.returncode == REFUSED
    assert "another supervisor works in" in second.stderr
    assert [role for role, pid in tree.items() if not helpers.alive(pid)] == []
    assert job.coordinator.find(session_node(job)) is not None
    assert exit_of(job) is None
    started = job.runs.get(1).submissions[0].started
    assert started is not None
    assert "another supervisor works in" in started.refused, "a reader is told of it"


def test_a_supervisor_that_comes_after_the_first_one_starts_nothing(
    job: JobContext, start: Callable[[str], None]
) -> None:
    """A wrapper that tries again would have a driver lead whose death is on record already."""
    start("wait")
    spec = helpers.directory(job) / "driver.json"
    copy = spec.read_bytes()
    os.kill(pids(job)["python"], signal.SIGKILL)
    first = wait_until(lambda: exit_of(job), timeout=10, what="the exit")
    supervisor = pids(job)["supervisor"]
    wait_until(lambda: not helpers.alive(supervisor), timeout=10, what="the end of the first supervisor")
    before = pids(job)
    spec.write_bytes(copy)  # the first one has removed it

    second = supervise(job)

    assert second.returncode == REFUSED
    assert "was started before" in second.stderr
    assert pids(job) == before
    assert exit_of(job) == first


def supervise(job: JobContext) -> subprocess.CompletedProcess[str]:
    """Run a supervisor of the job's submission by hand."""
    command = [sys.executable, "-m", SUPERVISOR_MODULE, str(helpers.directory(job) / "driver.json")]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


def test_after_an_orderly_end_the_jvm_may_clean_up(job: JobContext, start: Callable[[str], None]) -> None:
    start("orderly")

    found = wait_until(lambda: exit_of(job), timeout=20, what="the exit")

    assert found.code == 0
    assert (helpers.directory(job) / "jvm.done").exists()
    assert not helpers.alive(helpers.pid_in(job, "worker.pid") or 0)


def unusable_spark(home: Path) -> str:
    """Make a Spark that a submission takes, and whose spark-submit cannot be executed."""
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "spark-submit").touch(mode=0o600)
    return str(home)


def test_a_driver_that_cannot_be_started_is_reported_with_the_reason(
    job: JobContext, start: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SPARK_HOME", unusable_spark(tmp_path))

    start("wait")
    found = wait_until(lambda: exit_of(job), timeout=20, what="the exit")

    assert found.code == 70
    assert "spark-submit" in found.reason


def test_no_secret_is_on_a_command_line_in_a_log_or_in_zookeeper(
    job: JobContext, start: Callable[[str], None], coordinator: Coordinator
) -> None:
    start("wait")
    pids(job)
    submission = job.runs.get(1).submissions[0].submission

    lines = json.dumps([process.cmdline() for process in helpers.processes_of(submission)])
    logs = "".join(path.read_text() for path in helpers.directory(job).glob("*.log"))
    nodes = "".join(_tree(coordinator, job.paths.base))

    assert "spark-submit" in lines
    for place in (lines, logs, nodes):
        assert not [secret for secret in ("argument-secret", "conf-secret", "env-secret") if secret in place]


def test_files_with_secrets_are_readable_by_their_owner_only(job: JobContext, start: Callable[[str], None]) -> None:
    start("wait")
    pids(job)

    directory = helpers.directory(job)
    for name in ("driver.json", "spark.properties", "session", "driver.log", "supervisor.log"):
        assert stat.S_IMODE((directory / name).stat().st_mode) == 0o600, name
    assert "conf-secret" in (directory / "spark.properties").read_text()


def test_the_environment_of_the_submitter_stays_with_the_submitter(
    job: JobContext, start: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_PRODUCTION", "postgres://user:password@host")
    monkeypatch.setenv("SPARK_HA_DIGEST_AUTH", "user:password")

    start("wait")
    tree = pids(job)

    for pid in tree.values():
        inherited = psutil.Process(pid).environ()
        assert not {"AIRFLOW_CONN_PRODUCTION", "SPARK_HA_DIGEST_AUTH"} & inherited.keys()
    assert psutil.Process(tree["python"]).environ()["JOB_TOKEN"] == "env-secret"
    assert psutil.Process(tree["python"]).environ()["SPARK_LOCAL_IP"] == "127.0.0.1"


@pytest.mark.long
def test_without_zookeeper_the_first_sigterm_waits_for_it_and_the_second_one_ends_the_supervisor(
    own_zookeeper: EmbeddedZooKeeper, own_job: JobContext, tmp_path: Path
) -> None:
    """Without the second one an operator who wants the host back waits for an hour."""
    helpers.submit(own_job, helpers.script(tmp_path))
    tree = pids(own_job)
    exit_path = own_job.paths.submission_exit(1, 1)
    log = helpers.directory(own_job) / "supervisor.log"
    own_zookeeper.kill()

    os.kill(tree["supervisor"], signal.SIGTERM)
    wait_until(lambda: "trying again" in log.read_text(), timeout=40, what="an attempt to write the exit, and its end")
    assert not [role for role, pid in tree.items() if role != "supervisor" and helpers.alive(pid)]
    assert helpers.alive(tree["supervisor"])
    os.kill(tree["supervisor"], signal.SIGTERM)
    wait_until(lambda: not helpers.alive(tree["supervisor"]), timeout=40, what="the end of the supervisor")

    assert "the exit of the submission could not be written" in log.read_text()
    own_zookeeper.start()
    wait_until(lambda: own_job.coordinator.state is SessionState.CONNECTED, timeout=20, what="a session")
    assert own_job.coordinator.find(exit_path) is None


@pytest.mark.long
def test_an_exit_that_could_not_be_written_is_written_when_zookeeper_is_back(
    own_zookeeper: EmbeddedZooKeeper, own_job: JobContext, tmp_path: Path
) -> None:
    helpers.submit(own_job, helpers.script(tmp_path))
    tree = pids(own_job)
    log = helpers.directory(own_job) / "supervisor.log"
    own_zookeeper.kill()
    os.kill(tree["python"], signal.SIGKILL)
    wait_until(lambda: "trying again" in log.read_text(), timeout=40, what="an attempt to write the exit, and its end")

    own_zookeeper.start()
    wait_until(lambda: own_job.coordinator.state is SessionState.CONNECTED, timeout=20, what="a session")
    found = wait_until(lambda: exit_of(own_job), timeout=40, what="the exit")

    assert str(tree["python"]) in found.reason


def _tree(coordinator: Coordinator, path: str) -> Iterator[str]:
    yield path + coordinator.get(path).data.decode()
    for name in coordinator.children(path):
        yield from _tree(coordinator, f"{path}/{name}")


def test_the_connection_s_secrets_are_gone_with_the_exit(job: JobContext, start: Callable[[str], None]) -> None:
    start("die")
    wait_until(lambda: exit_of(job), timeout=20, what="the exit")

    assert not (helpers.directory(job) / "driver.json").exists()


def test_the_reason_of_an_exit_holds_no_password(
    job: JobContext, start: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SPARK_HOME", unusable_spark(tmp_path / "x?password=hunter2"))

    start("wait")
    found = wait_until(lambda: exit_of(job), timeout=20, what="the exit")

    assert "password=***" in found.reason
    assert "hunter2" not in found.reason


def log_files(job: JobContext) -> dict[str, int]:
    """Return the files of the driver's log, and their sizes."""
    return {path.name: path.stat().st_size for path in helpers.directory(job).glob("driver.log*")}


def test_the_log_of_a_driver_is_rotated_while_it_writes(job: JobContext, start: Callable[[str], None]) -> None:
    start("chatty")
    tree = pids(job)

    wait_until(lambda: "driver.log.2" in log_files(job), timeout=60, what="two rotations")
    kept = log_files(job)["driver.log.2"]
    begin = (helpers.directory(job) / "driver.log.1").read_bytes()[:100]
    wait_until(lambda: log_files(job).get("driver.log", 0) > 0, timeout=20, what="a line after them")

    assert kept >= 1_000_000
    assert b"\0" not in begin, "the writers have gone on at the new end"
    assert log_files(job).keys() == {"driver.log", "driver.log.1", "driver.log.2"}
    assert helpers.alive(tree["python"])


def test_a_supervisor_that_is_stopped_does_not_hold_what_its_driver_writes(
    job: JobContext, start: Callable[[str], None]
) -> None:
    """A pump between them would: its pipe is full after 64 KiB."""
    start("chatty")
    supervisor = pids(job)["supervisor"]
    os.kill(supervisor, signal.SIGSTOP)
    try:
        before = log_files(job).get("driver.log", 0)

        wait_until(lambda: log_files(job)["driver.log"] > before + 2_000_000, timeout=60, what="2 MB more")
    finally:
        os.kill(supervisor, signal.SIGCONT)


def test_the_exit_has_the_last_lines_of_the_log_without_secrets(job: JobContext, start: Callable[[str], None]) -> None:
    start("wait")
    tree = pids(job)
    with (helpers.directory(job) / "driver.log").open("a") as log:
        log.write("token env-secret\nValueError: no such city\n")

    os.kill(tree["python"], signal.SIGKILL)
    found = wait_until(lambda: exit_of(job), timeout=20, what="the exit")

    assert found.last_lines.endswith("token ***\nValueError: no such city")
