"""``spark-ha storage``: a dry run, a cleanup after a confirmation, and no removal on a guess."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from airflow_provider_ha.cli.app import app
from airflow_provider_ha.cli.session import ClusterTarget
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator, Create
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.storage import keys
from airflow_provider_ha.storage.blobs import put_blob
from airflow_provider_ha.storage.object_store import ObjectStore
from airflow_provider_ha.storage.open_storage import open_store
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters import submit_helpers as helpers
from tests.support.clusters.coordination_helpers import job_paths


YES, UNKNOWN, WRONG_CALL = 0, 2, 64


@pytest.fixture
def store(config: HaConfig, coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    """Storage of a cluster with one job and one orphan, a day from now."""
    coordinator.ensure(*job_paths(config).skeleton)
    store = open_store(config)
    put_blob(store, b"orphan")
    monkeypatch.setattr(SystemClock, "now", lambda _: datetime.now(timezone.utc) + timedelta(hours=25))
    return store


@pytest.fixture
def clean(config: HaConfig, store: ObjectStore) -> Any:
    """Call ``spark-ha storage clean``; returns exit code, stdout and stderr."""
    return command_of(config, "clean")


def command_of(config: HaConfig, name: str) -> Callable[..., tuple[int, str, str]]:
    def call(*words: str) -> tuple[int, str, str]:
        arguments = ["--zookeeper", config.zookeeper, "--storage-root", config.storage_root]
        arguments += ["--cluster-id", config.cluster_id, "storage", name, *words]
        done = CliRunner().invoke(app, arguments, obj=ClusterTarget())
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, done.stdout, done.stderr

    return call


@pytest.fixture
def submitted(
    config: HaConfig, coordinator: Coordinator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[JobContext]:
    """A job that was submitted to a stand-in for Spark, and that is led."""
    monkeypatch.setenv("SPARK_HOME", str(helpers.stand_in_spark(tmp_path / "spark")))
    job = helpers.context(config, coordinator)
    helpers.submit(job, helpers.script(tmp_path), mode="lead")
    wait_until(lambda: coordinator.find(job.paths.leader), timeout=30, what="the leader")
    yield job
    helpers.kill_all(job)


def test_everything_that_a_submission_writes_can_be_read(submitted: JobContext, clean: Any) -> None:
    """Fails when a node or a file of a real job is taken for a damaged one: nothing could ever be deleted."""
    shown = json.loads(clean("--dry-run", "--json")[1])["blobs"]

    assert shown["problems"] == []  # the leader of the stand-in has no record, which is a problem of the job alone
    assert len(shown["orphans"]) == 1  # the fixture's
    assert shown["named"] == 2  # the graph and the script


def blobs(store: ObjectStore) -> int:
    return len(list(store.list(keys.BLOBS)))


def test_a_dry_run_removes_nothing(clean: Any, store: ObjectStore) -> None:
    code, stdout, _ = clean("--dry-run", "--json")
    shown = json.loads(stdout)["blobs"]

    assert (code, shown["blobs"], len(shown["orphans"]), shown["deleted"]) == (YES, 1, 1, [])
    assert blobs(store) == 1


def test_a_script_is_not_asked(clean: Any, store: ObjectStore) -> None:
    code, stdout, _ = clean("--json")

    assert code == WRONG_CALL
    assert json.loads(stdout)["error"]["next_step"] == "Add --yes"
    assert blobs(store) == 1


def test_a_blob_that_no_record_names_is_removed(clean: Any, store: ObjectStore) -> None:
    code, stdout, _ = clean("--yes", "--json")
    shown = json.loads(stdout)["blobs"]

    assert (code, shown["deleted"]) == (YES, [shown["orphans"][0]["key"]])
    assert blobs(store) == 0


def test_what_cannot_be_read_is_named_and_nothing_is_deleted(
    clean: Any, store: ObjectStore, config: HaConfig, coordinator: Coordinator
) -> None:
    coordinator.commit(Create(job_paths(config).run(1), b"garbage"))

    code, stdout, stderr = clean("--yes")

    assert code == UNKNOWN
    assert "runs/1" in stderr
    assert "no blob is removed" in stderr
    assert "6" in stdout  # its bytes
    assert blobs(store) == 1


def test_a_storage_that_works_without_a_cost_is_checked_in_one_line(config: HaConfig) -> None:
    code, stdout, stderr = command_of(config, "check")()

    assert (code, "is writable" in stdout, stderr) == (YES, True, "")


def test_a_check_names_the_cost_of_a_work_root_without_links(config: HaConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.link

    def refuse(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
        if "probe-" in os.fspath(target) and os.fspath(target).endswith("second"):
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        real(source, target)

    monkeypatch.setattr(os, "link", refuse)

    code, stdout, _ = command_of(config, "check")("--json")

    (note,) = json.loads(stdout)["notes"]
    assert (code, "has no hard links" in note, os.strerror(errno.EOPNOTSUPP) in note) == (YES, True, True)
