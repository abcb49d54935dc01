"""What a supervisor starts from when its ticket crossed machines."""

from __future__ import annotations

import os
import stat
import traceback
from pathlib import Path

import psutil
import pytest

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.host.engines.local_arrival import handle_here
from airflow_provider_ha.host.engines.standalone_arrival import StandaloneDriver
from airflow_provider_ha.host.supervisor.arrival import CONFIG_VARIABLE, arrived
from airflow_provider_ha.jobs.drivers.driver_home import (
    CONFIG_FILE_VARIABLE,
    HANDLE_VARIABLE,
    HOME_OPTION,
    TICKET_VARIABLE,
    ConfigSource,
    Ticket,
)
from airflow_provider_ha.jobs.drivers.driver_spec import DriverSpec
from airflow_provider_ha.jobs.job_graph import Blob
from airflow_provider_ha.jobs.runs.submissions import DriverHandle


CONFIG = HaConfig.build(zookeeper="127.0.0.1:1", storage_root="file:///nowhere", digest_auth="user:a-password")
TICKET = Ticket(
    job_id="flights",
    run=1,
    attempt=2,
    submission_id="b" * 32,
    graph=Blob(sha256="a" * 64, size=1),
    config=ConfigSource.ENVIRONMENT,
)


@pytest.fixture(autouse=True)
def container(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of a supervisor that a cluster manager starts."""
    monkeypatch.setenv(TICKET_VARIABLE, TICKET.model_dump_json())
    monkeypatch.setenv(CONFIG_VARIABLE, CONFIG.to_private_json())
    monkeypatch.setenv(HANDLE_VARIABLE, DriverHandle(engine="local").model_dump_json())


def test_the_supervisor_makes_the_home_on_its_own_disk(tmp_path: Path) -> None:
    spec = arrived([HOME_OPTION, str(tmp_path / "new" / "home")])

    assert (spec.ticket, spec.config) == (TICKET, CONFIG)
    assert DriverSpec.read(spec.home.spec) == spec
    assert stat.S_IMODE(spec.home.spec.stat().st_mode) == 0o600


def test_neither_ticket_nor_configuration_stays_in_the_environment_that_the_driver_inherits(tmp_path: Path) -> None:
    arrived([HOME_OPTION, str(tmp_path / "home")])

    assert not {TICKET_VARIABLE, CONFIG_VARIABLE, HANDLE_VARIABLE} & os.environ.keys()


@pytest.mark.parametrize("variable", [TICKET_VARIABLE, CONFIG_VARIABLE, HANDLE_VARIABLE])
@pytest.mark.parametrize("content", [None, "", '{"password": "a-password"}'])
def test_a_variable_that_cannot_be_used_is_named_without_its_content(
    variable: str, content: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if content is None:
        monkeypatch.delenv(variable)
    else:
        monkeypatch.setenv(variable, content)

    with pytest.raises(ConfigurationError, match=variable) as refused:
        arrived([HOME_OPTION, str(tmp_path / "home")])

    assert "a-password" not in "".join(traceback.format_exception(refused.value))
    assert not (tmp_path / "home").exists()


def test_a_ticket_whose_configuration_is_elsewhere_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at_home = TICKET.model_copy(update={"config": ConfigSource.HOME})
    monkeypatch.setenv(TICKET_VARIABLE, at_home.model_dump_json())

    with pytest.raises(ConfigurationError, match="finds its configuration in 'home'"):
        arrived([HOME_OPTION, str(tmp_path / "home")])


def test_a_spec_file_of_an_engine_on_this_host_is_completed_with_this_process(tmp_path: Path) -> None:
    spec = DriverSpec(config=CONFIG, ticket=TICKET, directory=tmp_path)

    found = arrived([str(spec.write())])

    assert found == spec.model_copy(update={"handle": handle_here(psutil.Process(), tmp_path / "driver.log")})


def test_a_handle_of_an_engine_that_this_release_has_not_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(HANDLE_VARIABLE, DriverHandle(engine="mesos").model_dump_json())

    with pytest.raises(ConfigurationError, match="cannot run drivers of the engine 'mesos'"):
        arrived([HOME_OPTION, str(tmp_path / "home")])

    assert not (tmp_path / "home").exists()


@pytest.fixture
def on_a_worker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The environment of a supervisor on a worker, which says itself how to reach the cluster; returns the file."""
    file = tmp_path / "spark-ha.json"
    file.write_text(CONFIG.to_private_json())
    file.chmod(0o600)
    ticket = TICKET.model_copy(update={"config": ConfigSource.MACHINE})
    monkeypatch.setenv(TICKET_VARIABLE, ticket.model_dump_json())
    monkeypatch.delenv(CONFIG_VARIABLE)
    monkeypatch.setenv(CONFIG_FILE_VARIABLE, str(file))
    return file


def test_a_worker_says_in_a_private_file_how_to_reach_the_cluster(on_a_worker: Path, tmp_path: Path) -> None:
    assert arrived([HOME_OPTION, str(tmp_path / "home")]).config == CONFIG
    assert CONFIG_FILE_VARIABLE not in os.environ


def test_a_worker_says_in_its_environment_how_to_reach_the_cluster_and_the_script_does_not_find_it(
    on_a_worker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(CONFIG_FILE_VARIABLE)
    monkeypatch.setenv("SPARK_HA_ZOOKEEPER", "127.0.0.1:1")
    monkeypatch.setenv("SPARK_HA_STORAGE_ROOT", "file:///nowhere")
    monkeypatch.setenv("SPARK_HA_DIGEST_AUTH", "user:a-password")

    assert arrived([HOME_OPTION, str(tmp_path / "home")]).config == CONFIG
    assert not [name for name in os.environ if name.startswith(("SPARK_HA_DIGEST", "SPARK_HA_Z", "SPARK_HA_STORAGE"))]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_configuration_that_others_may_read_is_refused(mode: int, on_a_worker: Path, tmp_path: Path) -> None:
    on_a_worker.chmod(mode)

    with pytest.raises(ConfigurationError, match="users other than its owner may read or write"):
        arrived([HOME_OPTION, str(tmp_path / "home")])


@pytest.mark.parametrize("content", ["", "no JSON: a-password", '{"zookeeper": "a-password", "storage_root": "x"}'])
def test_a_private_file_that_cannot_be_used_is_named_without_its_content(
    content: str, on_a_worker: Path, tmp_path: Path
) -> None:
    on_a_worker.write_text(content)

    with pytest.raises(ConfigurationError, match=r"spark-ha\.json") as refused:
        arrived([HOME_OPTION, str(tmp_path / "home")])

    assert "no JSON: a-password" not in str(refused.value)


@pytest.mark.usefixtures("on_a_worker")
def test_a_machine_that_says_nothing_is_told_both_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CONFIG_FILE_VARIABLE)

    with pytest.raises(ConfigurationError, match="zookeeper and storage_root are not set") as refused:
        arrived([HOME_OPTION, str(tmp_path / "home")])

    assert "'config_file'" in refused.value.next_step
    assert "SPARK_HA_*" in refused.value.next_step


@pytest.fixture
def handed(on_a_worker: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A handle without the driver's id, in the directory that a worker has made for the driver; returns it."""
    blank = StandaloneDriver(masters="http://a:6066").handle()
    monkeypatch.setenv(HANDLE_VARIABLE, blank.model_dump_json())
    monkeypatch.setenv("SPARK_DRIVER_LOG_URL_STDERR", "http://worker:8081/logPage")
    directory = tmp_path / "driver-20260101000000-0001"
    directory.mkdir()
    monkeypatch.chdir(directory)
    return directory


def test_the_supervisor_completes_its_handle_with_what_only_its_machine_knows(handed: Path) -> None:
    handle = arrived([HOME_OPTION, "attempt-2"]).handle

    assert StandaloneDriver.of(handle) == StandaloneDriver(masters="http://a:6066", driver=handed.name)
    assert (handle.log_path, handle.ui_uri) == (f"{handed}/attempt-2/driver.log", "http://worker:8081/logPage")
    assert HANDLE_VARIABLE not in os.environ


def test_the_next_attempt_lies_beside_the_one_before_and_has_its_own_log(handed: Path) -> None:
    first = arrived([HOME_OPTION, "attempt-2"])

    following = first.of_next(3, "c" * 32)

    assert following.directory == handed / "attempt-3"
    assert following.handle.ref == first.handle.ref
    assert following.handle.log_path == f"{handed}/attempt-3/driver.log"


def test_the_next_attempt_in_this_process_keeps_its_handle(handed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    following = arrived([HOME_OPTION, "attempt-2"]).of_next(3, "c" * 32)
    following.directory.mkdir()
    file = following.write()
    monkeypatch.chdir(following.directory)

    assert arrived([str(file)]) == following
