"""``spark-ha cluster tree``, ``rebuild`` and ``metrics targets``, as a person and a program see them."""

from __future__ import annotations

import json
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.api.job_client import JobClient
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.coordinator import Create, Delete, SetData
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.errors import NotConnectedError
from airflow_provider_ha.fleet.znode_tree import read_tree, walk
from airflow_provider_ha.records import checksum
from tests.support.clusters.rebuild_helpers import Driver, drive, job, submit


YES, NO, UNKNOWN = 0, 1, 2


@pytest.fixture
def driver(config: HaConfig, coordinator: KazooCoordinator, tmp_path: Path) -> Driver:
    """A job whose driver is at work, with one checkpoint."""
    context = job(config, coordinator, "flights")
    made = drive(context, submit(context, tmp_path))
    made.checkpoint(7)
    return made


def test_a_person_sees_every_node_in_one_line(spark_ha: Any, driver: Driver) -> None:
    code, shown, _ = spark_ha("cluster", "tree")
    lines = {line.split("──", 1)[-1].split()[0]: line for line in shown.splitlines()}

    assert code == YES
    assert "ephemeral of session 0x" in lines["leader"]
    assert f"v{driver.leadership.epoch}" in lines["epoch"]
    assert 'cut={"counts":7}' in lines[f"{1:019d}"]
    assert "request_id=dag.task.run" in shown
    assert driver.key in lines["generation"]
    driver.leadership.release()


def test_a_program_gets_all_of_it(
    spark_ha: Any, config: HaConfig, coordinator: KazooCoordinator, driver: Driver
) -> None:
    driver.leadership.release()
    code, printed, _ = spark_ha("cluster", "tree", "--json")
    exported: dict[str, Any] = {}

    def collect(node: dict[str, Any]) -> None:
        exported[node["path"]] = node
        for child in node["children"]:
            collect(child)

    collect(json.loads(printed)["tree"])
    tree = read_tree(coordinator, ClusterPaths(config.root, config.cluster_id).base)

    assert code == YES
    assert tree is not None
    assert set(exported) == {node.path for node in walk(tree)}
    pointer = exported[driver.context.paths.checkpoint(1)]
    assert (pointer["kind"], pointer["record"]["cut"], pointer["version"]) == ("checkpoint-pointer", {"counts": 7}, 0)


def test_one_job_can_be_shown_alone_and_an_unknown_one_is_a_no(spark_ha: Any, driver: Driver) -> None:
    driver.leadership.release()

    assert spark_ha("cluster", "tree", "flights")[0] == YES
    code, printed, stderr = spark_ha("cluster", "tree", "no-such-job", "--json")

    assert code == NO
    assert "'no-such-job'" in stderr
    assert json.loads(printed)["error"]["type"] == "UnknownJobError"


def test_an_empty_cluster_is_an_answer(spark_ha: Any) -> None:
    code, shown, _ = spark_ha("cluster", "tree")

    assert code == YES
    assert "empty" in shown


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"\x00password=hunter2", "no record"),
        (b'{"kind": "run", "version": 1, "checksum": "x", "body": {"password": "hunter2"}}', "wrong checksum"),
        (b'{"kind": "password hunter", "body": 2}', "unknown to this release"),
        (
            json.dumps({"kind": "run", "version": 9, "checksum": checksum({}), "body": {"a": "hunter2"}}).encode(),
            "newer release",
        ),
    ],
    ids=["no JSON", "damaged", "unknown kind", "newer"],
)
def test_what_cannot_be_decoded_is_told_by_its_digest_only(
    spark_ha: Any, config: HaConfig, coordinator: KazooCoordinator, data: bytes, says: str
) -> None:
    paths = ClusterPaths(config.root, config.cluster_id).job("flights")
    coordinator.ensure(paths.base)
    coordinator.commit(Create(paths.status, data))

    code, shown, stderr = spark_ha("cluster", "tree")
    exported = spark_ha("cluster", "tree", "--json")[1]

    assert code == YES
    assert "undecodable" in shown
    assert says in shown
    assert "sha256" in shown
    assert "hunter2" not in shown + stderr + exported


def test_a_rebuild_shows_what_it_would_do_and_does_it_when_told(
    spark_ha: Any, config: HaConfig, coordinator: KazooCoordinator, driver: Driver
) -> None:
    driver.leadership.release()
    base = ClusterPaths(config.root, config.cluster_id).base
    tree = read_tree(coordinator, base)
    for node in reversed(list(walk(tree)) if tree else []):
        coordinator.commit(Delete(node.path))

    dry, shown, _ = spark_ha("cluster", "rebuild", "--dry-run")
    assert "ZooKeeper is unchanged" in shown
    assert coordinator.find(base) is None
    done = json.loads(spark_ha("cluster", "rebuild", "--yes", "--json")[1])

    assert dry == YES
    assert done["jobs"][0]["runs"] == {"1": "LOST"}
    assert done["applied"][0]["created"]
    assert spark_ha("job", "list")[1].split()[6:9] == ["flights", "LOST", "1"]
    code, _, stderr = spark_ha("cluster", "rebuild", "--yes")
    assert code == NO
    assert "not empty" in stderr
    assert spark_ha("cluster", "rebuild", "--yes", "--missing")[0] == YES


def test_what_was_not_used_is_said_with_its_reason(spark_ha: Any, config: HaConfig, driver: Driver) -> None:
    driver.leadership.release()
    shutil.rmtree(config.work_path / driver.context.keys.journals / "generation")
    (config.work_path / driver.context.keys.payload(1, driver.leadership.epoch)).write_bytes(b"torn")

    _, _, stderr = spark_ha("cluster", "rebuild", "--dry-run")

    assert "not used, job flights" in stderr
    assert driver.context.keys.payload(1, driver.leadership.epoch) in stderr


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
