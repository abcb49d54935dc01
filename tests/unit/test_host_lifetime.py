"""What may take a local driver along: refused where it is certain, warned about where it may be."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.host.engines.local import lifetime_warnings, refuse_short_lived, service_of


POD = {"AIRFLOW_IS_K8S_EXECUTOR_POD": "True"}


def test_a_pod_of_the_kubernetes_executor_gets_no_local_driver() -> None:
    with pytest.raises(ConfigurationError, match="kills a local driver") as refused:
        refuse_short_lived(POD)

    assert "SPARK_HA_ALLOW_DRIVER_IN=kubernetes-executor" in refused.value.next_step
    assert "docs/how-to/deploy.md" in refused.value.next_step


@pytest.mark.parametrize(
    "env", [{}, POD | {"SPARK_HA_ALLOW_DRIVER_IN": "kubernetes-executor"}, {"AIRFLOW_IS_K8S_EXECUTOR_POD": ""}]
)
def test_what_stays_or_is_allowed_by_name_gets_one(env: dict[str, str]) -> None:
    refuse_short_lived(env)


def test_another_word_allows_nothing() -> None:
    with pytest.raises(ConfigurationError):
        refuse_short_lived(POD | {"SPARK_HA_ALLOW_DRIVER_IN": "true"})


def cgroup(directory: Path, text: str) -> Path:
    path = directory / "cgroup"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("0::/system.slice/airflow-worker.service\n", "airflow-worker.service"),
        ("0::/system.slice/airflow-worker.service/drivers\n", "airflow-worker.service"),
        ("4:memory:/x\n1:name=systemd:/system.slice/airflow@worker.service\n0::/\n", "airflow@worker.service"),
        ("0::/user.slice/user-1000.slice/session-3.scope\n", ""),
        ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/x.scope\n", ""),
        ("4:memory:/system.slice/other.service\n0::/\n", ""),
        ("", ""),
    ],
)
def test_the_service_of_a_process_is_read_from_its_control_group(tmp_path: Path, text: str, unit: str) -> None:
    assert service_of(cgroup(tmp_path, text)) == unit


def test_a_process_without_a_control_group_belongs_to_no_service(tmp_path: Path) -> None:
    assert service_of(tmp_path / "absent") == ""


@pytest.mark.parametrize(
    ("mode", "warned"),
    [("control-group", True), ("mixed", True), ("process", False), ("none", False), ("", False)],
)
def test_a_service_that_kills_its_control_group_is_warned_about(tmp_path: Path, mode: str, warned: bool) -> None:
    found = lifetime_warnings(
        {}, cgroup=cgroup(tmp_path, "0::/system.slice/w.service"), container_signs=(), ask=lambda _: mode
    )

    assert bool(found) is warned
    if warned:
        assert f"systemd stops w.service with KillMode={mode}" in found[0]


@pytest.mark.parametrize("by", ["file", "environment"])
def test_a_container_is_warned_about(tmp_path: Path, by: str) -> None:
    sign = cgroup(tmp_path, "")
    env = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"} if by == "environment" else {}

    (found,) = lifetime_warnings(env, cgroup=sign, container_signs=(sign,) if by == "file" else ())

    assert "this is a container" in found


def test_a_host_without_either_is_silent(tmp_path: Path) -> None:
    assert lifetime_warnings({}, cgroup=cgroup(tmp_path, "0::/init.scope"), container_signs=(tmp_path / "no",)) == ()


LOGIN = "0::/user.slice/user-1000.slice/session-3.scope\n"


@pytest.mark.parametrize(
    ("group", "kills", "warned"),
    [
        (LOGIN, True, True),
        (LOGIN, False, False),
        ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/x.scope\n", True, False),
    ],
)
def test_a_login_whose_end_kills_its_processes_is_warned_about(
    tmp_path: Path, group: str, kills: bool, warned: bool
) -> None:
    found = lifetime_warnings({}, cgroup=cgroup(tmp_path, group), container_signs=(), logout_kills=lambda: kills)

    assert bool(found) is warned
    if warned:
        assert "systemd-run --user --scope" in found[0]
