"""Where a job's drivers run: what is refused before anything is uploaded or made."""

from __future__ import annotations

import pytest

from airflow_provider_ha.control.submission.prepare import check_conf
from airflow_provider_ha.engines.local import LocalEngine
from airflow_provider_ha.engines.registry import Engines
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.jobs.model import Target
from tests.engine_helpers import CONFIG


@pytest.mark.parametrize(
    ("key", "parameter"),
    [("spark.master", "parameter master"), ("spark.submit.deployMode", "engine"), ("spark.app.name", "parameter name")],
)
def test_conf_that_has_a_parameter_is_refused_with_the_parameter(key: str, parameter: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"conf sets {key}='yarn'") as caught:
        check_conf({key: "yarn", "spark.ui.enabled": "false"})

    assert parameter in caught.value.next_step


def test_other_conf_is_the_users() -> None:
    check_conf({"spark.sql.shuffle.partitions": "8"})


def test_the_local_engine_starts_no_driver_in_cluster_mode() -> None:
    with pytest.raises(ConfigurationError, match="deploy mode 'cluster'"):
        LocalEngine(CONFIG).check(Target(deploy_mode="cluster"))


def test_an_option_that_no_engine_reads_is_refused_with_those_that_it_has() -> None:
    with pytest.raises(ConfigurationError, match=r"no options \['interpreter'\]") as caught:
        LocalEngine(CONFIG).check(Target(engine_options={"interpreter": "/usr/bin/python3"}))

    assert "'python', 'spark_home'" in caught.value.next_step


def test_an_engine_that_is_not_known_is_refused_with_those_that_are() -> None:
    with pytest.raises(ConfigurationError, match="engine 'yarn' is not known here") as caught:
        Engines.of(CONFIG).get("yarn")

    assert "['local']" in caught.value.next_step
