"""Helpers of the tests of submissions and of the supervisor: a real process tree in the shape of a Spark driver.

The stand-in replaces spark-submit only: ``spark-submit`` plays the JVM, its child the driver's Python, and that one's
detached, deaf child a Python worker. Supervisor, ZooKeeper, sessions and signals are real.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import psutil

from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.host.engines.local import LocalEngine
from airflow_provider_ha.host.engines.registry import Engines
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.model import StartPoint
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.options.job_spec import JobSpec
from airflow_provider_ha.jobs.runs.submissions import Submission
from airflow_provider_ha.jobs.submit.preparation import upload
from airflow_provider_ha.jobs.submit.requests import SubmittedRun
from airflow_provider_ha.jobs.submit.run_submission import PreparedSubmission, submit_run
from airflow_provider_ha.storage.keys import STANDBY
from airflow_provider_ha.storage.open_storage import open_store
from tests.support.specs import changed


# So that a lost driver stays lost until the test recovers it.
NO_RESTART_IN_PLACE = HaOptions(
    restart_in_place=False, restart_delay=0.05, restart_attempts=2, driver_log_mb=1, driver_log_files=3
)

JVM = """#!{python}
import os, subprocess, sys, time
here = os.path.dirname(os.environ["SPARK_HA_DRIVER_SPEC"])
open(here + "/jvm.pid", "w").write(str(os.getpid()))
print("arguments", sys.argv[1:], flush=True)
code = subprocess.call([sys.executable, {driver!r}])
time.sleep(0.3)
open(here + "/jvm.done", "w").write("cleaned up")
sys.exit(code)
"""

DRIVER = """
import os, signal, subprocess, sys, time
from pathlib import Path
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.coordination.coordinator import Create
from airflow_provider_ha.coordination.election import acquire
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.jobs.drivers.driver_spec import DriverSpec, write_session
spec = DriverSpec.read(Path(os.environ["SPARK_HA_DRIVER_SPEC"]))
mode = os.environ["STAND_IN"]
if mode == "die":
    sys.exit(3)
if os.fork() == 0:                       # the worker: its own session, an orphan, deaf to SIGTERM
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        (spec.home.directory / "worker.pid").write_text(str(os.getpid()))
        time.sleep(3600)
    os._exit(0)
os.wait()
session = KazooCoordinator.connect(spec.config)
write_session(spec.home.session, session.session)
session.commit(Create("/stand-in-" + spec.submission_id, b"", ephemeral=True))
spec.home.driver_pid.write_text(str(os.getpid()))
if mode == "lead":
    paths = ClusterPaths(spec.config.root, spec.config.cluster_id).job(spec.job_id)
    options = {"timings": spec.config.timings, "clock": SystemClock(), "timeout": 10}
    acquire(session, paths, describe=lambda epoch: b"stand-in", **options).start_heartbeats(print)
while mode == "chatty":
    print(("line " + "x" * 94 + chr(10)) * 1000, end="", flush=True)
    time.sleep(0.02)
if mode == "orderly":
    time.sleep(0.3)
    session.close()
    spec.home.driver_pid.unlink()
    os._exit(0)
time.sleep(3600)
"""


def stand_in_spark(root: Path) -> Path:
    """Make a Spark home whose spark-submit is the stand-in."""
    (root / "bin").mkdir(parents=True)
    driver = root / "driver.py"
    driver.write_text(DRIVER)
    jvm = root / "bin" / "spark-submit"
    jvm.write_text(JVM.format(python=sys.executable, driver=str(driver)))
    jvm.chmod(0o755)
    return root


def script(root: Path) -> Path:
    """Make an application; the stand-in never runs it."""
    path = root / "application" / "app.py"
    path.parent.mkdir(exist_ok=True)
    path.write_text("print('never run')\n")
    return path


def context(
    config: HaConfig, coordinator: Coordinator, *, launch_seconds: float = 10.0, job_id: str = "flights"
) -> JobContext:
    """Return the context of a job."""
    return JobContext(
        job_id=job_id,
        config=config,
        coordinator=coordinator,
        store=open_store(config),
        engines=Engines.only(LocalEngine(config, launch_seconds=launch_seconds)),
        clock=SystemClock(),
    )


def request(
    application: Path,
    *,
    request_id: str = "dag.task.run",
    mode: str = "wait",
    options: HaOptions | None = None,
    **values: object,
) -> JobSpec:
    """Return a request for the stand-in, with a secret in its conf and its arguments."""
    made = JobSpec(
        job_id="flights",
        request_id=request_id,
        application=str(application),
        arguments=["--password", "argument-secret"],
        conf={"spark.hadoop.fs.s3a.secret.key": "conf-secret"},
        env={"STAND_IN": mode, "JOB_TOKEN": "env-secret"},
        ha=options or NO_RESTART_IN_PLACE,
    )
    return changed(made, **values)


def pid_in(job: JobContext, name: str, *, run: int = 1, attempt: int = 1) -> int | None:
    """Return a process id that the stand-in has left, once it is there."""
    path = directory(job, run=run, attempt=attempt) / name
    text = path.read_text() if path.exists() else ""
    return int(text) if text else None


def directory(job: JobContext, *, run: int = 1, attempt: int = 1) -> Path:
    """Return the directory of a submission."""
    return job.config.work_path / job.keys.application(run, attempt)


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def processes_of(submission: Submission) -> list[psutil.Process]:
    """Return every process that carries the id of a submission."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("SPARK_HA_SUBMISSION_ID") == submission.submission_id:
                found.append(process)
        except psutil.Error:
            continue
    return found


def kill_all(job: JobContext) -> None:
    """Kill what the submissions of a job have started, by their own ids."""
    for number in job.runs.numbers():
        for view in job.runs.get(number).submissions:
            for process in processes_of(view.submission):
                with contextlib.suppress(psutil.NoSuchProcess):  # it may be ending by itself at this moment
                    process.kill()
    kill_standbys(job)


def kill_standbys(job: JobContext) -> None:
    """Kill the standby drivers of a job, with all that they have started."""
    for process in standby_supervisors(job):
        with contextlib.suppress(psutil.NoSuchProcess):
            for each in (process, *process.children(recursive=True)):
                with contextlib.suppress(psutil.NoSuchProcess):
                    each.kill()


def standby_supervisors(job: JobContext) -> list[psutil.Process]:
    """Return the supervisors of the job's standby drivers, by their command lines."""
    prefix, found = f"{job.config.home_path / job.keys.submissions}", []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            last = process.cmdline()[-1:]
            if last and last[0].startswith(prefix) and f"-{STANDBY}-" in last[0]:
                found.append(process)
    return found


def submit(job: JobContext, application: Path, **values: object) -> SubmittedRun:
    """Submit the stand-in, from nothing."""
    wanted = request(application, **values)  # type: ignore[arg-type]

    def prepare() -> PreparedSubmission:
        return PreparedSubmission(graph=job.graphs.write_graph(upload(job, wanted)), start=StartPoint())

    return submit_run(job, wanted.request_id, prepare)


def drivers(job: JobContext) -> list[int]:
    """Return the process ids of all stand-in JVMs of the job that run."""
    found = []
    for number in job.runs.numbers():
        for view in job.runs.get(number).submissions:
            pid = pid_in(job, "jvm.pid", run=number, attempt=view.submission.attempt)
            if pid is not None and alive(pid):
                found.append(pid)
    return found
