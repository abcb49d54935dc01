"""Which Spark masters keep their executors where a supervisor can prove their death."""

from __future__ import annotations

import pytest

from airflow_provider_ha.jobs.drivers.spark_release import is_impossible, is_local


@pytest.mark.parametrize(
    "master", ["local", "local[4]", "local[*]", "local[2,3]", "local[*,3]", "local-cluster[2,1,1024]"]
)
def test_executors_below_the_driver_are_local(master: str) -> None:
    assert is_local(master)


@pytest.mark.parametrize(
    "master", ["spark://host:7077", "yarn", "k8s://https://host:6443", "local://x", "localhost", "local[2]x", ""]
)
def test_every_other_master_is_remote(master: str) -> None:
    assert not is_local(master)


@pytest.mark.parametrize(
    "master", ["local[two]", "local[]", "local[0]", "local[2,x]", "local[2]x", "local:2", "local-cluster[2]", "locale"]
)
def test_a_local_master_that_spark_does_not_know_is_impossible(master: str) -> None:
    assert is_impossible(master)


@pytest.mark.parametrize(
    "master",
    ["local", "local[4]", "local[*]", "local[2,3]", "local[*, 3]", "local-cluster[2,1,1024]", "spark://h:7077", "yarn"],
)
def test_a_master_that_spark_may_know_is_not(master: str) -> None:
    assert not is_impossible(master)
