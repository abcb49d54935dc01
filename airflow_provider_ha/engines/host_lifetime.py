"""Detects environments whose end kills a local driver: a one-task pod, a container, or a service's or login's cgroup.

A driver is a process of the host that submits it. Its own session and its supervisor let it outlive the task and the
worker, but not the killing of every process of a pod or of a control group. A pod of the KubernetesExecutor ends with
its task, which soon defers: there a local driver is refused, unless it is explicitly allowed. The other environments
may end but need not, so they cause a warning.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from airflow_provider_ha.errors import ConfigurationError


POD_VARIABLE = "AIRFLOW_IS_K8S_EXECUTOR_POD"  # Airflow sets it in each pod of the KubernetesExecutor
ALLOW_VARIABLE = "SPARK_HA_ALLOW_DRIVER_IN"
KUBERNETES_EXECUTOR = "kubernetes-executor"
DEPLOY = "https://github.com/airflow-provider-ha/airflow-provider-ha/blob/main/docs/how-to/deploy.md"
_CGROUP = Path("/proc/self/cgroup")
_CONTAINER_SIGNS = (Path("/.dockerenv"), Path("/run/.containerenv"))
_SERVICE = re.compile(r"/(?P<unit>[^/]+\.service)(/|$)")
_LOGIN = re.compile(r"/session-[^/]+\.scope(/|$)")
_LOGIND = ("org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager", "KillUserProcesses")
_SPARES_DRIVERS = frozenset({"process", "none"})  # of the values of KillMode
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
    """Return the events that may kill the drivers of this process, as sentences; unknown facts are left out.

    :param env: Environment of this process.
    :param cgroup: File with the control group of this process.
    :param container_signs: Files; any of them indicates a container.
    :param logout_kills: Whether the end of a login session kills its processes.
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
