"""``spark-ha metrics targets`` says where the drivers serve metrics, in the form that Prometheus reads."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.api.job_client import JobClient
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.coordinator import SetData
from airflow_provider_ha.errors import NotConnectedError
from tests.support.clusters.rebuild_helpers import drive, job, submit


def test_the_targets_are_those_of_the_jobs_that_serve_metrics(
    spark_ha: Any, config: HaConfig, coordinator: KazooCoordinator, tmp_path: Path
) -> None:
    for name, place in (("flights", "host-1:9400"), ("quiet", "")):
        context = job(config, coordinator, name)
        driver = drive(context, submit(context, tmp_path))
        driver.writer.set_metrics(place)
        driver.writer.publish_status(None)
    expected = [
        {"targets": ["host-1:9400"], "labels": {"cluster": config.cluster_id, "job_id": "flights"}},
    ]
    file = tmp_path / "targets.json"

    code, document, _ = spark_ha("metrics", "targets", "--json", "--output", str(file))
    shown = spark_ha("metrics", "targets")[1]

    assert code == 0
    assert json.loads(document) == json.loads(file.read_text()) == expected
    assert file.stat().st_mode & 0o777 == 0o644
    assert [line.split() for line in shown.splitlines()] == [["JOB", "TARGET"], ["flights", "host-1:9400"]]


def test_a_driver_that_is_lost_stays_a_target_and_that_of_a_run_that_is_over_does_not(
    spark_ha: Any, config: HaConfig, coordinator: KazooCoordinator, tmp_path: Path
) -> None:
    context = job(config, coordinator, "flights")
    driver = drive(context, submit(context, tmp_path))
    driver.writer.set_metrics("host-1:9400")
    driver.writer.publish_status(None)
    driver.leadership.release()

    lost = json.loads(spark_ha("metrics", "targets", "--json")[1])
    again = drive(context, driver.run)
    again.end()
    over = json.loads(spark_ha("metrics", "targets", "--json")[1])

    assert [target["targets"] for target in lost] == [["host-1:9400"]]
    assert over == []


def test_a_loopback_is_a_target_on_the_host_of_its_driver_alone(
    spark_ha: Any, config: HaConfig, coordinator: KazooCoordinator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = job(config, coordinator, "flights")
    driver = drive(context, submit(context, tmp_path))
    driver.writer.set_metrics("127.0.0.1:9400")
    driver.writer.publish_status(None)

    def listed(here: str) -> tuple[int, list[Any], str]:
        monkeypatch.setattr(socket, "gethostname", lambda: here)
        code, document, said = spark_ha("metrics", "targets", "--json")
        return code, [target["targets"] for target in json.loads(document)], said

    own, other = listed("host"), listed("host-2")

    reason = "its driver serves metrics at 127.0.0.1:9400 of host host, which host-2 cannot reach. "
    step = "Set metrics_address of the job to 0.0.0.0, or to an address that each of its hosts has\n"
    assert own == (0, [["127.0.0.1:9400"]], "")
    assert other == (0, [], f"job flights is left out: {reason}{step}")


def test_a_job_that_cannot_be_read_hides_no_other_one(
    spark_ha: Any, config: HaConfig, coordinator: KazooCoordinator, tmp_path: Path
) -> None:
    for name in ("damaged", "flights"):
        context = job(config, coordinator, name)
        driver = drive(context, submit(context, tmp_path))
        driver.writer.set_metrics(f"{name}:9400")
        driver.writer.publish_status(None)
    damaged = job(config, coordinator, "damaged").paths.status
    coordinator.commit(SetData(damaged, b"damaged", coordinator.get(damaged).version))

    code, document, said = spark_ha("metrics", "targets", "--json")

    assert code == 0
    assert [target["targets"] for target in json.loads(document)] == [["flights:9400"]]
    assert "job damaged is left out" in said


def test_an_outage_leaves_the_list_of_targets_as_it_is(
    spark_ha: Any, coordinator: KazooCoordinator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: HaConfig
) -> None:
    context = job(config, coordinator, "flights")
    drive(context, submit(context, tmp_path))
    file = tmp_path / "targets.json"
    file.write_text("[]")

    def cut_off(_: Any) -> None:
        raise NotConnectedError("ZooKeeper (127.0.0.1:1) did not answer a read of /a")

    monkeypatch.setattr(JobClient, "snapshot", cut_off)  # of the session that has listed the jobs

    code, document, said = spark_ha("metrics", "targets", "--output", str(file))

    assert (code, document) == (2, "")
    assert "did not answer" in said
    assert file.read_text() == "[]"


def test_a_file_that_cannot_be_written_is_named(spark_ha: Any, coordinator: KazooCoordinator, tmp_path: Path) -> None:
    code, _, said = spark_ha("metrics", "targets", "--output", str(tmp_path / "missing" / "targets.json"))

    assert code == 64
    assert "missing/targets.json cannot be written" in said
