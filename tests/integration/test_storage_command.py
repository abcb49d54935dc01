"""``spark-ha storage``: a dry run first, a deletion when that is asked for, and no deletion on a guess."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from typer.testing import CliRunner

from airflow_provider_ha.cli.app import app
from airflow_provider_ha.cli.session import Target
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator, Create
from airflow_provider_ha.storage import keys
from airflow_provider_ha.storage.blobs import put_blob
from airflow_provider_ha.storage.open import open_store
from airflow_provider_ha.storage.store import ObjectStore
from tests.coordination_helpers import job_paths


YES, UNKNOWN = 0, 2


@pytest.fixture
def store(config: HaConfig, coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    """Storage of a cluster with one job and one orphan, a day from now."""
    coordinator.ensure(*job_paths(config).skeleton)
    store = open_store(config)
    put_blob(store, b"orphan")
    monkeypatch.setattr(SystemClock, "now", lambda _: datetime.now(timezone.utc) + timedelta(hours=25))
    return store


@pytest.fixture
def orphans(config: HaConfig, store: ObjectStore) -> Any:
    """Call ``spark-ha storage orphans``; returns exit code, stdout and stderr."""

    def call(*words: str) -> tuple[int, str, str]:
        arguments = ["--zookeeper", config.zookeeper, "--storage-root", config.storage_root]
        arguments += ["--cluster-id", config.cluster_id, "storage", "orphans", *words]
        done = CliRunner().invoke(app, arguments, obj=Target())
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, done.stdout, done.stderr

    return call


def blobs(store: ObjectStore) -> int:
    return len(list(store.list(keys.BLOBS)))


def test_it_shows_first_and_deletes_when_asked(orphans: Any, store: ObjectStore) -> None:
    code, stdout, _ = orphans("--json")
    shown = json.loads(stdout)

    assert (code, shown["blobs"], len(shown["orphans"]), shown["deleted"]) == (YES, 1, 1, [])
    assert blobs(store) == 1

    code, stdout, _ = orphans("--delete", "--json")

    assert (code, json.loads(stdout)["deleted"]) == (YES, [shown["orphans"][0]["key"]])
    assert blobs(store) == 0


def test_what_cannot_be_read_is_named_and_nothing_is_deleted(
    orphans: Any, store: ObjectStore, config: HaConfig, coordinator: Coordinator
) -> None:
    coordinator.commit(Create(job_paths(config).run(1), b"garbage"))

    code, stdout, stderr = orphans("--delete")

    assert code == UNKNOWN
    assert "runs/1" in stderr
    assert "nothing was deleted" in stderr
    assert "6" in stdout  # its bytes
    assert blobs(store) == 1
