"""Proofs: what may count, and the answers of a proof that is cut short."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.verify.codes import Code
from airflow_provider_ha.checkpoints.verify.proof_protocol import ProofEvent, ProofMessage
from airflow_provider_ha.clock import SystemClock, new_id
from airflow_provider_ha.errors import CheckpointMissingError, ObjectMissingError, StorageUnavailableError
from airflow_provider_ha.host.engines.local_arrival import boot_id, pid_namespace
from airflow_provider_ha.jobs.application.application_files import collect_application
from airflow_provider_ha.jobs.application.artifacts import upload_application
from airflow_provider_ha.jobs.drivers.spark_release import is_impossible, is_local
from airflow_provider_ha.jobs.job_graph import JobGraph
from airflow_provider_ha.jobs.runs.submissions import SubmissionStarted
from airflow_provider_ha.jobs.verification import job_drill, spark_proof
from airflow_provider_ha.jobs.verification.job_verification import application_of, fetch, proof_place
from airflow_provider_ha.storage.local_store import LocalStore
from tests.engine_helpers import changed, is_gone, started


def ending(script: str) -> tuple[str, list[ProofEvent]]:
    """Return how a child that runs that shell script ended, and what was heard of it."""
    heard: list[ProofEvent] = []
    with subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE) as child:
        told = spark_proof._listen(child, 100.0, lambda answer: heard.append(answer.event))
        child.kill()
    return told, heard


def test_a_child_that_ends_before_it_is_done_is_told_with_its_code() -> None:
    assert ending("exit 3") == ("the child ended with code 3 before it was done", [])


def test_a_child_that_closes_its_answers_and_goes_on_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_proof, "KILL_SECONDS", 0.1)

    assert ending("exec sleep 600 >&-") == ("the child closed its answers and did not end", [])


def test_what_a_library_prints_between_the_answers_is_left_out() -> None:
    done = ProofMessage(event=ProofEvent.DONE).model_dump_json()

    assert ending(f"echo hello; echo '{done}'") == ("", [ProofEvent.DONE])


class Verified:
    """A checkpoint of which other batches are provable each time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *provable: int) -> None:
        self.copied: list[int] = []
        self._left = list(provable)
        monkeypatch.setattr(spark_proof, "verify", self._verify)
        monkeypatch.setattr(spark_proof, "copy_closure", self._copy)

    def _verify(self, *_: object, **__: object) -> Any:
        batch = self._left.pop(0)
        return SimpleNamespace(findings=(), batches=[SimpleNamespace(batch=batch)], provable=[batch], committed=batch)

    def _copy(self, directory: Path, batch: int, target: Path) -> int:
        """Only what is verified last is not purged."""
        self.copied.append(batch)
        if self._left:
            raise CheckpointMissingError(f"batch {batch} is gone")
        return 1


def test_a_batch_that_is_purged_before_its_copy_gives_way_to_a_newer_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = Verified(monkeypatch, 5, 6)

    _, chosen, copy, size = spark_proof._copied(LocalTree(tmp_path), None, None, tmp_path, lambda _: None)

    assert (chosen, checkpoint.copied) == (6, [5, 6])
    assert (copy, size) == (tmp_path / "copy-2", 1)


@pytest.mark.parametrize(
    ("batch", "purged"), [(5, [5]), (None, list(range(spark_proof.ATTEMPTS)))], ids=["asked for", "again and again"]
)
def test_a_batch_that_cannot_be_copied_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int | None, purged: list[int]
) -> None:
    checkpoint = Verified(monkeypatch, *purged, 99)

    with pytest.raises(CheckpointMissingError, match=f"batch {purged[-1]} is gone"):
        spark_proof._copied(LocalTree(tmp_path), batch, None, tmp_path, lambda _: None)

    assert checkpoint.copied == purged


def test_a_checkpoint_that_cannot_be_read_has_no_batch_to_prove_and_is_not_called_empty(tmp_path: Path) -> None:
    unreadable: Any = SimpleNamespace(code=Code.UNREADABLE)
    report: Any = SimpleNamespace(findings=[unreadable], batches=[], provable=[], committed=-1)

    assert spark_proof._choose(LocalTree(tmp_path), report, None) is None


def test_a_place_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    job: Any = SimpleNamespace(config=SimpleNamespace(home_root="file:///home", home_path=tmp_path / "file"))

    with pytest.raises(StorageUnavailableError, match=r"cannot make .*/file/proofs: Not a directory"), proof_place(job):
        pass


def test_what_no_job_made_names_no_application(tmp_path: Path) -> None:
    with pytest.raises(ObjectMissingError, match=r"names no job graph.*start=False"):
        fetch(SimpleNamespace(), "", tmp_path)  # type: ignore[arg-type]  # nothing of the job is read


def test_a_checkpoint_has_no_manifest_to_be_compared_with(tmp_path: Path) -> None:
    chosen: Any = SimpleNamespace(source="checkpoint")

    assert job_drill._damaged(SimpleNamespace(), chosen, tmp_path) == ()  # type: ignore[arg-type]  # nothing of it is read


def test_the_application_of_a_job_graph_comes_with_all_that_its_driver_gets(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("print()")
    (tmp_path / "data.csv").write_text("1")
    store = LocalStore(tmp_path / "store")
    uploaded = upload_application(
        store, collect_application(application=tmp_path / "app.py", files=[tmp_path / "data.csv"])
    )
    graph = JobGraph(
        job_id="j",
        name="j",
        application=uploaded.application,
        files=uploaded.files,
        arguments=("--input", "/data"),
        conf={"spark.sql.extensions": "x"},
        env={"REGION": "eu"},
        packages=("a:b:1",),
        master="spark://prod:7077",
    )
    found = application_of(store, graph, tmp_path / "fetched")

    assert found.script.read_text() == "print()"
    assert found.script.is_relative_to(tmp_path / "fetched")
    assert (found.arguments, found.packages) == (("--input", "/data"), ("a:b:1",))
    assert (found.conf, found.env) == ({"spark.sql.extensions": "x"}, {"REGION": "eu"})
    assert found.directory is not None
    assert (found.directory / "data.csv").read_text() == "1"


def test_the_lease_clock_counts_suspended_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine was up for 500 s and asleep for 300 s of them."""
    clocks = {time.CLOCK_BOOTTIME: 500.0, time.CLOCK_MONOTONIC: 200.0}
    monkeypatch.setattr("airflow_provider_ha.clock.time.clock_gettime", clocks.__getitem__)

    assert SystemClock().lease_time() == 500.0


def started_on(boot: str) -> SubmissionStarted:
    here = {"boot": boot, "pid_namespace": pid_namespace(), "uid": os.geteuid(), "process_started": time.time()}
    return changed(started(), **here)


def test_what_was_started_on_another_host_is_not_known_to_be_gone() -> None:
    assert not is_gone(new_id(), started_on("of another host"))


def test_what_was_started_here_and_has_no_process_is_gone() -> None:
    assert is_gone(new_id(), started_on(boot_id()))


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
