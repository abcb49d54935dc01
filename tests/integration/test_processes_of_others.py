"""Whether a submission's processes are gone: what this user or container may not see is unknown, and not gone."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from airflow_provider_ha.clock import new_id
from airflow_provider_ha.host.engines import local
from airflow_provider_ha.host.engines.engine import RunningSubmission, observe_one
from airflow_provider_ha.host.engines.local import LocalEngine
from airflow_provider_ha.host.engines.local_arrival import LocalProcess, boot_id, handle_here, pid_namespace
from airflow_provider_ha.jobs.drivers.driver_spec import SUBMISSION_VARIABLE
from airflow_provider_ha.jobs.runs.submissions import SubmissionStarted
from airflow_provider_ha.testing.waiting import wait_until
from tests.engine_helpers import CONFIG, changed, is_gone


ROOT, UNPRIVILEGED, WITHOUT_PROCESSES = 0, 65534, 65533
NO_PROCESS = 4_194_303  # the highest that Linux counts to
as_root = pytest.mark.skipif(os.geteuid() != ROOT, reason="only root can become another user")


@pytest.fixture
def submission_id() -> str:
    return new_id()


@pytest.fixture
def process(submission_id: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process of a submission, by this user."""
    found = subprocess.Popen(["sleep", "600"], env={**os.environ, SUBMISSION_VARIABLE: submission_id})
    wait_until(lambda: "sleep" in psutil.Process(found.pid).cmdline()[:1], timeout=10, what="the process")
    yield found
    found.kill()
    found.wait()


def record(process: subprocess.Popen[bytes]) -> SubmissionStarted:
    return SubmissionStarted(handle=handle_here(psutil.Process(process.pid), Path("/driver.log")))


def as_nobody(submission_id: str, started: SubmissionStarted) -> bool:
    """Ask as another user, in a child."""
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(UNPRIVILEGED)
            os.setuid(UNPRIVILEGED)
            os._exit(int(is_gone(submission_id, started)))
        finally:
            os._exit(99)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, 1)
    return bool(code)


def test_a_process_that_lives_is_not_gone_and_one_that_ended_is(
    submission_id: str, process: subprocess.Popen[bytes]
) -> None:
    started = record(process)
    alive = is_gone(submission_id, started)

    process.send_signal(signal.SIGKILL)
    process.wait()

    assert not alive
    assert is_gone(submission_id, started)


def test_a_supervisor_whose_environment_names_an_earlier_attempt_still_runs(process: subprocess.Popen[bytes]) -> None:
    """It has claimed the next attempt, and replaces its program in a moment."""
    next_attempt, started = new_id(), record(process)

    assert observe_one(LocalEngine(CONFIG), next_attempt, started.handle) == RunningSubmission(started.handle)
    process.kill()
    process.wait()

    assert is_gone(next_attempt, started)


@as_root
def test_a_process_of_another_user_is_unknown(submission_id: str, process: subprocess.Popen[bytes]) -> None:
    assert not as_nobody(submission_id, record(process))


@as_root
def test_processes_of_users_who_cannot_have_started_it_do_not_hide_its_end(
    submission_id: str, process: subprocess.Popen[bytes]
) -> None:
    """Another user's service that was started later is on every host."""
    ended = changed(record(process), uid=WITHOUT_PROCESSES, pid=NO_PROCESS)

    assert as_nobody(submission_id, ended)


@pytest.mark.parametrize("elsewhere", [{"boot": "another"}, {"pid_namespace": "pid:[1]"}, {"boot": ""}], ids=str)
def test_where_it_was_not_started_nothing_is_known(
    submission_id: str, process: subprocess.Popen[bytes], elsewhere: dict[str, str]
) -> None:
    started = record(process)
    process.kill()
    process.wait()

    assert is_gone(submission_id, started)
    assert not is_gone(submission_id, changed(started, **elsewhere))


def test_a_proc_that_hides_the_processes_of_others_answers_nothing_about_them(
    submission_id: str, process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    started = record(process)
    process.kill()
    process.wait()
    monkeypatch.setattr(local, "sees_processes_of_others", lambda: False)

    assert is_gone(submission_id, started)  # one's own are always listed
    assert not is_gone(submission_id, changed(started, uid=UNPRIVILEGED))


def test_another_pid_namespace_with_the_name_of_this_host_knows_nothing(
    submission_id: str, process: subprocess.Popen[bytes]
) -> None:
    """Two containers with the network of their host: the second sees none of the processes of the first."""
    inside = ["unshare", "--pid", "--fork", "--mount-proc"]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*inside, "true"], check=False, capture_output=True).returncode
    ):
        pytest.skip("this host does not let a test make a PID namespace")
    program = (
        "import sys; from tests.engine_helpers import is_gone; "
        "from airflow_provider_ha.jobs.runs.submissions import SubmissionStarted; "
        "print(is_gone(sys.argv[1], SubmissionStarted.from_bytes(sys.argv[2].encode(), source='test')))"
    )

    asked = subprocess.run(
        [*inside, sys.executable, "-c", program, submission_id, record(process).to_bytes().decode()],
        capture_output=True,
        text=True,
        check=True,
    )

    assert asked.stdout.strip() == "False"


def test_a_submission_says_where_its_process_is_counted(process: subprocess.Popen[bytes]) -> None:
    local = LocalProcess.of(record(process).handle)

    assert (local.host, local.boot, local.uid) == (socket.gethostname(), boot_id(), os.getuid())
    assert local.pid_namespace == pid_namespace()
    assert local.pid_namespace.startswith("pid:[")


def test_a_process_that_is_closed_to_every_look_for_a_moment_does_not_count(
    submission_id: str, process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one between its fork and its exec: it belongs to another program, and the next look says so."""
    started = record(process)
    process.kill()
    process.wait()
    looks = iter([True, True])
    environ, create_time = psutil.Process.environ, psutil.Process.create_time

    def closed_at_first(self: psutil.Process) -> dict[str, str]:
        if self.pid == os.getpid() and next(looks, False):
            raise psutil.AccessDenied(self.pid)
        return environ(self)

    monkeypatch.setattr(psutil.Process, "environ", closed_at_first)
    monkeypatch.setattr(
        psutil.Process,
        "create_time",
        lambda self: LocalProcess.of(started.handle).process_started if self.pid == os.getpid() else create_time(self),
    )

    assert is_gone(submission_id, started)
