"""Local engine: drivers as processes of this host under a supervisor that outlives the Airflow task, and its limits.

A driver is a process of the host that submits it. Its own session and its supervisor let it outlive the task and the
worker, but not a kill of all processes of a pod or of a control group. A pod of the KubernetesExecutor ends with its
task, which soon defers, so a local driver is refused there unless it is explicitly allowed. Other environments may end
too, but need not, so they cause a warning.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import psutil

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.errors import ConfigurationError, JobStateError
from airflow_provider_ha.host.engines.engine import (
    EngineCheck,
    EngineFacts,
    GoneSubmission,
    Observation,
    RunningSubmission,
    UnknownSubmission,
    WantedSubmission,
)
from airflow_provider_ha.host.engines.local_arrival import LocalProcess, handle_here, sees_processes_of_others
from airflow_provider_ha.host.engines.table import LOCAL
from airflow_provider_ha.jobs.drivers.driver_home import DriverHome, Ticket
from airflow_provider_ha.jobs.drivers.driver_spec import (
    OWNER_ONLY,
    SUBMISSION_VARIABLE,
    SUPERVISOR_MODULE,
    DriverSpec,
    host_environment,
)
from airflow_provider_ha.jobs.drivers.spark_release import installed_spark, release_of
from airflow_provider_ha.jobs.job_graph import Target
from airflow_provider_ha.jobs.options.conf import engine_options, named_spark_home
from airflow_provider_ha.jobs.runs.submissions import DriverHandle
from airflow_provider_ha.storage.durable import make_directories
from airflow_provider_ha.storage.outage import is_outage, unavailable


POD_VARIABLE = "AIRFLOW_IS_K8S_EXECUTOR_POD"  # Airflow sets it in each pod of the KubernetesExecutor
ALLOW_VARIABLE = "SPARK_HA_ALLOW_DRIVER_IN"
KUBERNETES_EXECUTOR = "kubernetes-executor"
DEPLOY = "https://github.com/airflow-provider-ha/airflow-provider-ha/blob/main/docs/how-to/deploy.md"
_CGROUP = Path("/proc/self/cgroup")
_CONTAINER_SIGNS = (Path("/.dockerenv"), Path("/run/.containerenv"))
_SERVICE = re.compile(r"/(?P<unit>[^/]+\.service)(/|$)")
_LOGIN = re.compile(r"/session-[^/]+\.scope(/|$)")
_LOGIND = ("org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager", "KillUserProcesses")
_SPARES_DRIVERS = frozenset({"process", "none"})  # KillMode values
_ASK_SECONDS = 2.0

Ask = Callable[[str], str]
"""Name of a unit -> its KillMode; empty when unknown."""


def refuse_short_lived(env: Mapping[str, str] | None = None) -> None:
    """Refuse to start a local driver that would end with the task that submits it.

    :param env: Environment of this process.
    :raises ConfigurationError: This is a pod of the KubernetesExecutor, and local drivers are not explicitly allowed.
    """
    env = os.environ if env is None else env
    allowed = {word.strip() for word in env.get(ALLOW_VARIABLE, "").split(",")}
    if env.get(POD_VARIABLE) and KUBERNETES_EXECUTOR not in allowed:
        raise ConfigurationError(
            f"this task runs in a pod of the KubernetesExecutor ({POD_VARIABLE} is set): the pod ends when the task "
            "defers, and kills a local driver",
            next_step="Run the task on a worker that stays: another executor for it (executor='CeleryExecutor'), see "
            f"{DEPLOY}; or set {ALLOW_VARIABLE}={KUBERNETES_EXECUTOR} in the pod when something else keeps it alive",
        )


def lifetime_warnings(
    env: Mapping[str, str] | None = None,
    *,
    cgroup: Path = _CGROUP,
    container_signs: tuple[Path, ...] = _CONTAINER_SIGNS,
    ask: Ask | None = None,
    logout_kills: Callable[[], bool] | None = None,
) -> tuple[str, ...]:
    """Return the events that may kill the drivers of this process, as sentences; unknown facts are omitted.

    :param env: Environment of this process.
    :param cgroup: File with the control group of this process.
    :param container_signs: Files whose existence indicates a container.
    :param logout_kills: Set if the end of a login session kills its processes.
    """
    env = os.environ if env is None else env
    if "KUBERNETES_SERVICE_HOST" in env or any(sign.exists() for sign in container_signs):
        return (f"this is a container: the driver ends when the container does, and is then recovered; see {DEPLOY}",)
    if is_login(cgroup) and (logout_kills or _logout_kills)():
        then = "run the command with `systemd-run --user --scope` after `loginctl enable-linger`"
        return (
            f"systemd-logind has KillUserProcesses=yes: a logout kills the driver, which is then recovered; {then}",
        )
    unit = service_of(cgroup)
    mode = (ask or _kill_mode)(unit) if unit else ""
    if not mode or mode in _SPARES_DRIVERS:
        return ()
    then = f"its restart kills the driver, which is then recovered; set KillMode=process in the unit, see {DEPLOY}"
    return (f"systemd stops {unit} with KillMode={mode}: {then}",)


def service_of(cgroup: Path = _CGROUP) -> str:
    """Return the systemd service of this process; empty if it has no service or the file is unreadable."""
    units = [match["unit"] for path in _groups(cgroup) if (match := _SERVICE.search(path))]
    # A unit of a user's own manager is nested in user@<id>.service, which is not the service to restart.
    return next((unit for unit in units if not unit.startswith("user@")), "")


def is_login(cgroup: Path = _CGROUP) -> bool:
    """Return whether this process belongs to a login session, and to no service of its user."""
    return any(_LOGIN.search(path) for path in _groups(cgroup))


def _groups(cgroup: Path) -> list[str]:
    try:
        lines = cgroup.read_text().splitlines()
    except OSError:
        return []
    # Version 2 has one line, "0::<path>"; version 1 has systemd's own hierarchy in addition to the controllers'.
    return [line.split(":", 2)[2] for line in lines if line.startswith("0::") or ":name=systemd:" in line]


def _kill_mode(unit: str) -> str:
    return _answer_of("systemctl", "show", "--property=KillMode", "--value", "--", unit)


def _logout_kills() -> bool:
    return _answer_of("busctl", "get-property", *_LOGIND) == "b true"


def _answer_of(program: str, *words: str) -> str:
    found = shutil.which(program)
    if found is None:
        return ""
    try:
        asked = subprocess.run([found, *words], capture_output=True, text=True, timeout=_ASK_SECONDS, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return asked.stdout.strip() if asked.returncode == 0 else ""


log = logging.getLogger(__name__)

# A process that is starting or ending may briefly be unreadable, even for its own user.
_TRANSIENT_SECONDS, _LOOK_SECONDS = 0.5, 0.05
_POLL_SECONDS = 0.2
_SAME_PROCESS_SECONDS = 1.0  # tolerance between two readings of the same process's start
_CLOCK_SECONDS = 60.0  # tolerance for a clock change between two readings


class LocalEngine:
    """Engine that starts ``spark-submit`` in client mode on this host.

    :param config: Access of a driver to the cluster; its home is in the work root.
    :param launch_seconds: Seconds that a launch may take before another process takes it over.
    """

    name = LOCAL.name

    def __init__(self, config: HaConfig, *, launch_seconds: float = 10.0) -> None:
        self.config = config
        self.facts = EngineFacts(launch_seconds=launch_seconds, poll_seconds=_POLL_SECONDS, runs_here=True)

    def check(self, target: Target) -> None:
        """Refuse targets other than a driver of this host, and options that this engine does not read.

        :raises ConfigurationError: The deploy mode is ``cluster``, or an option is not known.
        """
        if target.deploy_mode != "client":
            raise ConfigurationError(
                f"the local engine starts no driver in deploy mode {target.deploy_mode!r}",
                next_step="Use deploy mode 'client'",
            )
        LOCAL.check_options(target.engine_options)

    def check_host(self) -> None:
        """Refuse a pod that ends with its task.

        :raises ConfigurationError: As :func:`~airflow_provider_ha.host.engines.local.refuse_short_lived`.
        """
        refuse_short_lived()

    def probe(self, target: Target) -> Iterator[EngineCheck]:
        """Yield the Spark that the options, ``SPARK_HOME`` or the installation of this host name."""
        home = named_spark_home(engine_options(self.config, target)) or installed_spark().home
        release = release_of(home) if home is not None else None
        answer = ".".join(map(str, release)) if release else "unknown release"
        yield EngineCheck(f"in {str(home)!r}", answer, home is not None, release)

    def reserve(self, ticket: Ticket) -> None:
        """Reserve nothing: the process id is known after the start."""

    def launch(self, ticket: Ticket, reserved: DriverHandle | None) -> DriverHandle:
        """Start the supervisor, detached: in its own session, without this process's files and environment.

        Before the first attempt of a run, log the events that may kill drivers of this host.

        :raises ConfigurationError: The directory of the submission cannot be created.
        :raises StorageUnavailableError: The work root is full, or does not answer.
        """
        del reserved
        for warning in lifetime_warnings() if ticket.attempt == 1 else ():  # once per run: they hold for later attempts
            log.warning("%s", warning)
        _forget_secrets_of_earlier(self.config, ticket)
        spec = DriverSpec.of(self.config, ticket, engine=self.name)
        home = spec.home
        try:
            make_directories(home.directory)
            spec.write()
            output = os.open(home.supervisor_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, OWNER_ONLY)
        except OSError as error:
            spec.forget()
            if is_outage(error):
                raise unavailable(
                    f"the directory of the submission, {home.directory}, cannot be written", error
                ) from error
            raise ConfigurationError(
                f"the directory of the submission, {str(home.directory)!r}, cannot be written ({error.strerror})",
                next_step="Make the work root writable for the user that runs Airflow's workers",
            ) from error
        try:
            process = subprocess.Popen(  # outlives this call
                [sys.executable, "-m", SUPERVISOR_MODULE, str(home.spec)],
                cwd=home.directory,
                env={**host_environment(), SUBMISSION_VARIABLE: ticket.submission_id},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        finally:
            os.close(output)
        handle = handle_here(psutil.Process(process.pid), home.driver_log)
        # Reaped by a thread: in a long-lived caller (a triggerer, a test) a dead supervisor must not look alive.
        threading.Thread(target=process.wait, name=f"reap-{process.pid}", daemon=True).start()
        log.info(
            "started supervisor %d of %s run %d attempt %d", process.pid, ticket.job_id, ticket.run, ticket.attempt
        )
        return handle

    def observe(self, wanted: Sequence[WantedSubmission]) -> dict[str, Observation]:
        """Search for the processes of submissions on this host.

        Without a handle only a supervisor counts, and a supervisor that is not found may run elsewhere.
        """
        return {each.submission_id: _observe(each.submission_id, each.handle) for each in wanted}

    def terminate(self, handle: DriverHandle) -> None:
        """Request that the supervisor kills its driver, reports and ends.

        :raises JobStateError: The supervisor runs on another host, or under another user.
        """
        local = LocalProcess.of(handle)
        if not local.is_here:
            raise JobStateError(
                f"the supervisor {local.pid} runs on {local.host}, which is not this host",
                next_step=f"Run the command on {local.host}, or cancel the job: `spark-ha job cancel JOB`",
            )
        supervisor = _supervisor(local)
        if supervisor is None:
            return
        try:
            supervisor.terminate()
        except psutil.NoSuchProcess:
            return
        except psutil.AccessDenied as error:
            raise JobStateError(
                f"the supervisor {local.pid} belongs to user {local.uid}", next_step="Repeat the command as that user"
            ) from error

    def forget(self, handle: DriverHandle) -> None:
        """Remove the private file of a submission that has ended without a proof of death.

        The record must not determine the file, so only a home below the work root of this host counts.
        """
        home = Path(handle.log_path).parent.resolve()
        if home.is_relative_to(self.config.home_path.resolve()):
            DriverHome(home).forget_spec()


def _forget_secrets_of_earlier(config: HaConfig, ticket: Ticket) -> None:
    """Remove the private file that a submission given up without proof of death has not removed itself."""
    if ticket.attempt > 1:
        earlier = ticket.of_next(ticket.attempt - 1, "")
        DriverHome.of(config, earlier).forget_spec()


def _observe(submission_id: str, handle: DriverHandle | None) -> Observation:
    if handle is not None:
        return _look(submission_id, handle)
    found = _find(submission_id)
    if found is not None:
        return RunningSubmission(found)
    return UnknownSubmission("no supervisor with its id runs on this host")


def _find(submission_id: str) -> DriverHandle | None:
    """Search this host for a supervisor with this id in its environment."""
    for process in _processes_of(submission_id):
        try:
            arguments = process.cmdline()
            if SUPERVISOR_MODULE in arguments:
                return handle_here(process, Path(arguments[-1]).with_name("driver.log"))
        except (psutil.NoSuchProcess, psutil.AccessDenied):  # noqa: PERF203  # each process may vanish
            continue
    return None


def _look(submission_id: str, handle: DriverHandle) -> Observation:
    """Check whether a process with this id is left. A process that may not be inspected is unknown, not gone."""
    local = LocalProcess.of(handle)
    if not local.is_here:  # guard: not-found-elsewhere-is-proof
        return UnknownSubmission(f"it was started on {local.host}, in another PID namespace or before its last boot")
    if local.uid != os.geteuid() and not sees_processes_of_others():
        return UnknownSubmission(f"it runs as user {local.uid}, whose processes this user does not see")
    if _supervisor(local) is not None:  # guard: supervisor-between-two-attempts-is-gone
        return RunningSubmission(handle)
    suspects = list(psutil.process_iter())
    end = time.monotonic() + _TRANSIENT_SECONDS
    while suspects:
        found = {process: _is_of(process, submission_id, local) for process in suspects}
        if any(found.values()):
            return RunningSubmission(handle)
        suspects = [process for process, answer in found.items() if answer is None]
        if suspects and time.monotonic() > end:
            return UnknownSubmission(f"{len(suspects)} processes of this host cannot be inspected")
        if suspects:
            time.sleep(_LOOK_SECONDS)
    return GoneSubmission(f"no process with its id is left on {local.host}")


def _supervisor(local: LocalProcess) -> psutil.Process | None:
    """Return the supervisor if it lives; another process may have reused its process id.

    A supervisor that continues with the next attempt has that attempt's id in its environment only after its ``exec``.
    """
    try:
        process = psutil.Process(local.pid)
        same = abs(process.create_time() - local.process_started) < _SAME_PROCESS_SECONDS
        return process if same and process.status() != psutil.STATUS_ZOMBIE else None
    except psutil.Error:
        return None


def _is_of(process: psutil.Process, submission_id: str, local: LocalProcess) -> bool | None:
    """Return whether a process belongs to a submission; ``None`` if it may, and this user cannot see it."""
    try:
        return process.environ().get(SUBMISSION_VARIABLE) == submission_id
    except psutil.NoSuchProcess:
        return False
    except (psutil.AccessDenied, OSError):
        pass
    try:
        if process.create_time() < local.process_started - _CLOCK_SECONDS:
            return False
        return None if process.uids().real == local.uid else False
    except psutil.NoSuchProcess:
        return False
    except (psutil.AccessDenied, OSError):
        return None


def _processes_of(submission_id: str) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        try:
            if process.environ().get(SUBMISSION_VARIABLE) == submission_id:
                yield process
        except (psutil.NoSuchProcess, psutil.AccessDenied, OSError):  # noqa: PERF203  # each process may vanish
            continue  # another user's, or gone: not to be adopted
