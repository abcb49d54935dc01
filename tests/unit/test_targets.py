"""Where a job's drivers run: what is refused before anything is uploaded or made."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.host.engines.local import LocalEngine
from airflow_provider_ha.host.engines.registry import Engines
from airflow_provider_ha.jobs.job_graph import Target
from airflow_provider_ha.jobs.options.conf import check_conf, engine_options, named_spark_home
from tests.engine_helpers import CONFIG


@pytest.mark.parametrize(
    ("key", "parameter"),
    [("spark.master", "parameter master"), ("spark.submit.deployMode", "engine"), ("spark.app.name", "parameter name")],
)
def test_conf_that_has_a_parameter_is_refused_with_the_parameter(key: str, parameter: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"conf sets {key}='yarn'") as caught:
        check_conf({key: "yarn", "spark.ui.enabled": "false"})

    assert parameter in caught.value.next_step


def test_conf_that_spark_submit_would_drop_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"'fs\.s3a\.endpoint' is not a Spark conf key"):
        check_conf({"fs.s3a.endpoint": "http://s3:9000"})


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

    assert "['local', 'standalone']" in caught.value.next_step


def test_options_of_the_connection_count_where_the_job_leaves_them_open() -> None:
    config = CONFIG.model_copy(
        update={"engines": {"local": {"spark_home": "/opt/spark", "python": "/usr/bin/python3"}}}
    )

    options = engine_options(config, Target(engine_options={"python": "/opt/venv/bin/python"}))

    assert options == {"spark_home": "/opt/spark", "python": "/opt/venv/bin/python"}


def test_options_of_the_submission_count_where_a_later_connection_names_none() -> None:
    submitted = Target(engine="standalone", cluster_options={"config_file": "/etc/old.json", "python": "python3.11"})
    later = CONFIG.model_copy(update={"engines": {"standalone": {"config_file": "/etc/new.json"}}})

    assert engine_options(CONFIG, submitted) == {"config_file": "/etc/old.json", "python": "python3.11"}
    assert engine_options(later, submitted) == {"config_file": "/etc/new.json", "python": "python3.11"}


def test_a_graph_keeps_options_of_a_cluster_and_none_of_one_host() -> None:
    of_both = {"standalone": {"config_file": "/etc/spark-ha.json"}, "local": {"spark_home": "/opt/spark"}}
    config = CONFIG.model_copy(update={"engines": of_both})

    assert Engines.of(config).cluster_options(config, "standalone") == {"config_file": "/etc/spark-ha.json"}
    assert Engines.of(config).cluster_options(config, "local") == {}


def test_spark_home_of_the_options_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/opt/spark-of-the-host")

    assert named_spark_home({"spark_home": "/opt/spark"}) == Path("/opt/spark")
    assert named_spark_home({}) == Path("/opt/spark-of-the-host")


@pytest.mark.parametrize(
    ("engines", "says"),
    [
        ({"local": {"interpreter": "x"}}, r"engine 'local' has no options \['interpreter'\]"),
        ({"yarn": {"queue": "x"}}, r"engines that are not known here: \['yarn'\]"),
    ],
)
def test_options_of_the_connection_that_nothing_reads_are_refused(
    engines: dict[str, dict[str, str]], says: str
) -> None:
    with pytest.raises(ConfigurationError, match=says):
        Engines.of(CONFIG.model_copy(update={"engines": engines}))
