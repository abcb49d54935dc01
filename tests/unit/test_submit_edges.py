"""Submissions: what is refused before anything is made, and the targets of drivers."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from airflow_provider_ha.api.job_client import JobClient
from airflow_provider_ha.checkpoints.areas.drain import drain_key, newest_drain
from airflow_provider_ha.checkpoints.areas.linked_work_area import LinkedWorkArea
from airflow_provider_ha.checkpoints.model import CheckpointKind, CheckpointPointer, QueryCut, QuerySink, SinkKind
from airflow_provider_ha.checkpoints.restore import directory_plan
from airflow_provider_ha.checkpoints.restore.facts import ExternalState, _with_table
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.spark.places import StorageAccess
from airflow_provider_ha.checkpoints.store.removal import DeletionList
from airflow_provider_ha.checkpoints.verify.proof_protocol import ProofEvent, ProofMessage, ProofRequest
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.errors import CheckpointMissingError, ConfigurationError
from airflow_provider_ha.host.engines.engine import RunningSubmission, observe_one
from airflow_provider_ha.host.engines.local import LocalEngine
from airflow_provider_ha.host.engines.registry import Engines
from airflow_provider_ha.jobs.application import artifacts
from airflow_provider_ha.jobs.application.application_files import collect_application
from airflow_provider_ha.jobs.drivers.driver_spec import SUBMISSION_VARIABLE, SUPERVISOR_MODULE
from airflow_provider_ha.jobs.job_graph import Blob, Target
from airflow_provider_ha.jobs.model import QueryStatus
from airflow_provider_ha.jobs.options.conf import check_conf, engine_options, named_spark_home
from airflow_provider_ha.jobs.options.job_spec import JobSpec, RestoreRequest
from airflow_provider_ha.jobs.rebuild.rebuild_plan import _run_of_checkpoints
from airflow_provider_ha.jobs.rebuild.storage_evidence import CheckpointEvidence, JobEvidence, _graphs
from airflow_provider_ha.jobs.restore import job_restore
from airflow_provider_ha.jobs.verification import job_verification, spark_proof
from airflow_provider_ha.storage.blobs import put_blob
from airflow_provider_ha.storage.local_store import LocalStore
from tests.engine_helpers import CONFIG


NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
PATHS = ClusterPaths("spark-ha", "default")

DIGEST, ABSENT = "a" * 64, "b" * 64


def a_job(job_id: str = "ours") -> Any:
    """A job's context of which only the name is used; the coordinator finds nothing."""
    coordinator = SimpleNamespace(find=lambda path: None)
    return SimpleNamespace(job_id=job_id, coordinator=coordinator, paths=PATHS.job(job_id))


def test_a_client_refuses_a_request_for_another_job(tmp_path: Path) -> None:
    request = JobSpec(job_id="other", request_id="r", application=str(tmp_path / "app.py"))

    with pytest.raises(ConfigurationError, match="for job 'other', not for 'ours'"):
        JobClient(a_job()).submit(request)


def test_a_checkpoint_of_another_job_that_is_always_removed_first_ends_the_choice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chosen = SimpleNamespace(name="checkpoint-1")
    monkeypatch.setattr(job_restore, "select_checkpoint", lambda *_, **__: SimpleNamespace(require=lambda: chosen))
    reading: Any = SimpleNamespace(hold=lambda source, found: None)

    with pytest.raises(CheckpointMissingError, match="removed faster than they can be verified"):
        job_restore._choose(a_job(), a_job("theirs"), RestoreRequest(job_id="ours", request_id="r"), reading)


def test_a_supervisor_that_runs_is_found_with_its_log(tmp_path: Path) -> None:
    arguments = [sys.executable, "-c", "input()", SUPERVISOR_MODULE, str(tmp_path / "spec.json")]
    environment = os.environ | {SUBMISSION_VARIABLE: tmp_path.name}
    with subprocess.Popen(arguments, env=environment, stdin=subprocess.PIPE) as process:
        found = observe_one(LocalEngine(CONFIG), tmp_path.name, None)
        process.kill()

    assert isinstance(found, RunningSubmission)
    assert found.handle.ref["pid"] == process.pid
    assert found.handle.log_path == str(tmp_path / "driver.log")


def test_a_query_that_has_committed_its_first_batch_is_proven_and_one_without_a_batch_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_verification, "prove", lambda directory, **_: directory.name)
    cut = {
        name: QueryCut(batch=batch, sink=QuerySink(kind=SinkKind.OTHER)) for name, batch in (("first", 0), ("none", -1))
    }

    proofs: Any = job_verification.prove_cut(
        LocalTree(tmp_path), cut, tmp_path, application=None, options=job_verification.ProofOptions()
    )

    assert proofs == {"first": "first"}


def test_only_the_graphs_that_are_there_are_evidence(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store")
    (tmp_path / "graph").write_bytes(b"graph")
    sha256, size = put_blob(store, tmp_path / "graph")

    assert list(_graphs(store, {sha256, ABSENT})) == [Blob(sha256=sha256, size=size)]


def test_one_checkpoint_is_enough_to_know_of_a_run() -> None:
    pointer = CheckpointPointer(
        number=4,
        epoch=2,
        run=3,
        reason=CheckpointKind.PERIODIC,
        payload="p",
        sha256="d",
        size=1,
        cut={"q": 1},
        created_at=NOW,
    )
    evidence = JobEvidence("ours", checkpoints=(CheckpointEvidence(pointer, DIGEST, pinned=True),))

    assert _run_of_checkpoints(evidence, 3).graph == Blob(sha256=DIGEST, size=0)


def test_a_blob_has_no_negative_size() -> None:
    with pytest.raises(ValidationError):
        Blob(sha256=DIGEST, size=-1)


def test_a_query_has_replayed_nothing_unless_it_says_so() -> None:
    assert QueryStatus(planned=1, committed=1).replayed == 0


def test_an_application_that_becomes_unreadable_during_the_upload_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "app.py").touch()

    def fail(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(artifacts, "put_blob", fail)

    with pytest.raises(ConfigurationError, match=r"app\.py"):
        artifacts.upload_application(
            LocalStore(tmp_path / "store"), collect_application(application=tmp_path / "app.py")
        )


def test_the_list_of_deletions_is_made_once() -> None:
    made: list[str] = []
    coordinator: Any = SimpleNamespace(ensure=made.append)
    entries = DeletionList(coordinator, PATHS.job("ours"), clock=SystemClock())

    entries.entry("checkpoint-1")
    entries.entry("checkpoint-2")

    assert made == [PATHS.to_delete]


@pytest.mark.parametrize(("batch", "gone"), [(0, True), (-1, False)])
def test_a_table_that_is_not_there_is_gone_once_a_batch_was_committed(batch: int, gone: bool, tmp_path: Path) -> None:
    sink = QuerySink(kind=SinkKind.OTHER, format="delta", table=str(tmp_path / "table"))

    around = _with_table(ExternalState(), LocalTree(tmp_path), sink, batch, StorageAccess())

    assert (around.sink_gone, around.table_batch) == (gone, -1)


@pytest.mark.parametrize(("batch", "said"), [(None, "has no batch that"), (7, "has no batch 7 that")])
def test_the_batch_that_was_asked_for_is_named_when_it_is_not_there(batch: int | None, said: str) -> None:
    report: Any = SimpleNamespace(findings=())

    with pytest.raises(CheckpointMissingError, match=said):
        directory_plan._chosen(LocalTree(Path("checkpoint")), report, (), batch)


def test_the_newest_fork_of_a_drain_is_the_one_that_was_made_last(tmp_path: Path) -> None:
    older, newer = Path(drain_key(str(tmp_path / "live" / "e2"))), Path(drain_key(str(tmp_path / "live" / "e1")))
    for made_at, fork in enumerate((older, newer), start=1):
        fork.mkdir(parents=True)
        os.utime(fork, (made_at, made_at))

    assert newest_drain(LinkedWorkArea(tmp_path), "live/e3") == f"live/{newer.name}"


@pytest.mark.parametrize(("newest", "chosen"), [(5, 5), (None, 7)])
def test_the_newest_batch_that_may_be_restorable_is_proven_else_the_last_committed_one(
    newest: int | None, chosen: int, tmp_path: Path
) -> None:
    batches = [SimpleNamespace(batch=batch) for batch in (5, 6, 7, 8)]
    provable = [newest] if newest is not None else []
    report: Any = SimpleNamespace(findings=(), batches=batches, provable=provable, committed=7)

    assert spark_proof._choose(LocalTree(tmp_path), report, None) == chosen


def test_a_child_that_says_that_it_is_done_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "child.py").write_text(
        f"import time\nprint({ProofMessage(event=ProofEvent.DONE).model_dump_json()!r}, flush=True)\ntime.sleep(600)\n"
    )
    monkeypatch.setattr(spark_proof, "PROGRAM", "child")
    request = ProofRequest(
        copy_directory=tmp_path, original=str(tmp_path), batch=1, state_by_id=False, scratch=tmp_path, heap="1g"
    )
    heard: list[ProofEvent] = []

    ending = spark_proof.run_child(request, 100.0, lambda answer: heard.append(answer.event))

    assert (ending, heard) == ("", [ProofEvent.DONE])


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
