"""What a supervisor starts from when its ticket crossed machines."""

from __future__ import annotations

import os
import stat
import traceback
from pathlib import Path

import pytest

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.jobs.driver_spec import DriverSpec
from airflow_provider_ha.jobs.model import Blob
from airflow_provider_ha.jobs.ticket import ConfigSource, Ticket
from airflow_provider_ha.supervisor.arrival import CONFIG_VARIABLE, HOME_OPTION, TICKET_VARIABLE, arrived


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


def test_the_supervisor_makes_the_home_on_its_own_disk(tmp_path: Path) -> None:
    spec = arrived([HOME_OPTION, str(tmp_path / "new" / "home")])

    assert (spec.ticket, spec.config) == (TICKET, CONFIG)
    assert DriverSpec.read(spec.home.spec) == spec
    assert stat.S_IMODE(spec.home.spec.stat().st_mode) == 0o600


def test_neither_ticket_nor_configuration_stays_in_the_environment_that_the_driver_inherits(tmp_path: Path) -> None:
    arrived([HOME_OPTION, str(tmp_path / "home")])

    assert not {TICKET_VARIABLE, CONFIG_VARIABLE} & os.environ.keys()


@pytest.mark.parametrize("variable", [TICKET_VARIABLE, CONFIG_VARIABLE])
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


def test_a_spec_file_of_an_engine_on_this_host_is_read_as_it_is(tmp_path: Path) -> None:
    spec = DriverSpec(config=CONFIG, ticket=TICKET, directory=tmp_path)

    assert arrived([str(spec.write())]) == spec
