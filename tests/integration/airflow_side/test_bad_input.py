"""Bad input: the error names the object, the reason and the next step, burns no retry, and changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.jobs.runs.run_store import RunStore
from airflow_provider_ha.operators.cancel import SparkHaCancelOperator
from airflow_provider_ha.operators.checkpoint import SparkHaCheckpointOperator
from airflow_provider_ha.operators.delete_job import SparkHaDeleteJobOperator
from airflow_provider_ha.operators.plan_restore import SparkHaPlanRestoreOperator
from airflow_provider_ha.operators.restore import SparkHaRestoreOperator
from airflow_provider_ha.operators.savepoint import SparkHaSavepointOperator
from airflow_provider_ha.operators.select_checkpoint import SparkHaSelectCheckpointOperator
from airflow_provider_ha.operators.stop import SparkHaStopOperator
from airflow_provider_ha.operators.submit import SparkHaSubmitOperator
from tests.support.airflow_exceptions import AirflowException, AirflowFailException
from tests.support.clusters.airflow_helpers import connection_json, context, storage_path
from tests.support.clusters.jobs_helpers import a_result, submit
from tests.support.clusters.submit_helpers import script


pytestmark = pytest.mark.usefixtures("airflow_connection")

Dump = tuple[dict[str, tuple[bytes, int]], dict[str, bytes | None]]

OF_A_JOB = [
    SparkHaSavepointOperator,
    SparkHaStopOperator,
    SparkHaCancelOperator,
    SparkHaCheckpointOperator,
    SparkHaDeleteJobOperator,
    SparkHaSelectCheckpointOperator,
]
OF_A_CUT = [SparkHaSelectCheckpointOperator, SparkHaPlanRestoreOperator, SparkHaRestoreOperator]


@pytest.fixture
def dump(config: HaConfig, coordinator: Coordinator) -> Callable[[], Dump]:
    """Everything that is there: each node with its data and version, each file with its bytes."""

    def nodes(path: str) -> dict[str, tuple[bytes, int]]:
        node = coordinator.find(path)
        found = {path: (node.data, node.version)} if node else {}
        for name in coordinator.children(path):
            found |= nodes(f"{path}/{name}")
        return found

    def dumped() -> Dump:
        root = storage_path(config)
        files = {str(path): path.read_bytes() if path.is_file() else None for path in sorted(root.rglob("*"))}
        return nodes(f"/{config.root}/{config.cluster_id}"), files

    return dumped


@pytest.fixture
def live_job(coordinator: Coordinator, paths: JobPaths) -> str:
    """A job with a live run and no checkpoint."""
    submit(coordinator, paths)
    return "flights"


@pytest.fixture
def ended_job(coordinator: Coordinator, paths: JobPaths, live_job: str) -> str:
    """A job whose only run is over; it has no checkpoint."""
    coordinator.commit(RunStore(coordinator, paths).result_op(1, a_result()))
    return live_job


def refused(operator: Any, kind: type[Exception], *words: str) -> None:
    """Execute a task that has to fail with exactly *kind*; its message has a next step and all of *words*."""
    with pytest.raises(AirflowException) as error:
        operator.execute(context())
    message = str(error.value)
    assert type(error.value) is kind, message
    assert [word for word in words if word not in message] == [], message
    assert len([part for part in message.split(". ") if part]) >= 2, f"no next step: {message}"


def submitting(application: Path, job_id: str = "flights", **kwargs: Any) -> SparkHaSubmitOperator:
    return SparkHaSubmitOperator(task_id="task", job_id=job_id, application=str(application), **kwargs)


@pytest.mark.parametrize("operator", OF_A_JOB)
def test_an_unknown_job(operator: Any, live_job: str, dump: Callable[[], Dump]) -> None:
    before = dump()

    refused(operator(task_id="task", job_id="fligths"), AirflowFailException, "'fligths'", "not known", live_job)

    assert dump() == before


@pytest.mark.parametrize(
    ("job_id", "reason"), [("to_delete", "reserved"), ("../flights", "letters"), ("", "letters"), ("a/b", "letters")]
)
@pytest.mark.parametrize("operator", [*OF_A_JOB, *OF_A_CUT[1:], SparkHaSubmitOperator])
def test_a_job_id_that_cannot_be_one(
    operator: Any, job_id: str, reason: str, tmp_path: Path, dump: Callable[[], Dump]
) -> None:
    needed = {"application": str(script(tmp_path))} if operator is SparkHaSubmitOperator else {}
    before = dump()

    task = operator(task_id="task", job_id="rendered", **needed)
    task.job_id = job_id  # as a template renders: an id that is given so is refused at the import
    refused(task, AirflowFailException, repr(job_id), reason)

    assert dump() == before


def test_a_storage_root_without_a_scheme(
    config: HaConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dump: Callable[[], Dump]
) -> None:
    broken = config.model_copy(update={"storage_root": "/data/spark-ha"})
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_HA_DEFAULT", connection_json(broken))
    before = dump()

    refused(
        submitting(script(tmp_path)),
        AirflowFailException,
        "'spark_ha_default'",
        "'/data/spark-ha'",
        "scheme",
        "file:///",
    )

    assert dump() == before


def test_a_storage_root_that_cannot_be_written(
    config: HaConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dump: Callable[[], Dump]
) -> None:
    (tmp_path / "file").write_text("not a directory")
    broken = config.model_copy(update={"storage_root": f"file://{tmp_path}/file"})
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_HA_DEFAULT", connection_json(broken))
    before = dump()

    # A share that is not mounted comes back: this is for a retry.
    refused(
        submitting(script(tmp_path)),
        AirflowException,
        f"{tmp_path}/file",
        "a file is in the way",
        "Check the file system",
    )

    assert dump() == before


@pytest.mark.long  # 15 s: the time after which a connection is given up
def test_a_zookeeper_that_does_not_answer(
    config: HaConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dump: Callable[[], Dump]
) -> None:
    away = config.model_copy(update={"zookeeper": "127.0.0.1:1"})
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_HA_DEFAULT", connection_json(away))
    before = dump()

    refused(submitting(script(tmp_path)), AirflowException, "127.0.0.1:1")

    assert dump() == before


def test_a_script_that_does_not_exist(tmp_path: Path, dump: Callable[[], Dump]) -> None:
    before = dump()

    refused(submitting(tmp_path / "gone.py"), AirflowFailException, f"{tmp_path}/gone.py", "not exist")

    assert dump() == before


def test_a_job_that_has_a_live_run(tmp_path: Path, live_job: str, dump: Callable[[], Dump]) -> None:
    before = dump()

    helps = ("SparkHaFollowOperator", f"`spark-ha job stop {live_job}` (SparkHaStopOperator)", "spark-ha job cancel")
    refused(submitting(script(tmp_path)), AirflowFailException, live_job, "live run, number 1", *helps)

    assert dump() == before


@pytest.mark.parametrize("operator", OF_A_CUT)
def test_a_job_without_a_checkpoint(operator: Any, ended_job: str, dump: Callable[[], Dump]) -> None:
    before = dump()

    refused(operator(task_id="task", job_id=ended_job), AirflowFailException, "no checkpoint", "start_from='fresh'")

    assert dump() == before


@pytest.mark.parametrize("operator", OF_A_CUT)
def test_a_job_without_a_checkpoint_is_named(operator: Any, ended_job: str) -> None:
    refused(operator(task_id="task", job_id=ended_job), AirflowFailException, repr(ended_job))


@pytest.mark.parametrize("operator", OF_A_CUT[1:])
def test_an_unknown_job_to_restore_is_called_unknown(operator: Any, live_job: str) -> None:
    refused(operator(task_id="task", job_id="fligths"), AirflowFailException, "'fligths'", "not known", live_job)


@pytest.mark.parametrize("start_from", ["checkpoint-7", "savepoint-friday"])
@pytest.mark.parametrize("operator", OF_A_CUT)
def test_a_checkpoint_or_savepoint_that_is_not_there(
    operator: Any, start_from: str, ended_job: str, dump: Callable[[], Dump]
) -> None:
    before = dump()

    refused(
        operator(task_id="task", job_id=ended_job, start_from=start_from),
        AirflowFailException,
        repr(ended_job),
        start_from.partition("-")[2],
    )

    assert dump() == before


@pytest.mark.parametrize("start_from", ["checkpoint-7", "savepoint-friday", "yesterday"])
def test_a_start_from_what_is_not_there(
    start_from: str, tmp_path: Path, ended_job: str, dump: Callable[[], Dump]
) -> None:
    before = dump()

    named = start_from.partition("-")[2] or start_from
    task = submitting(script(tmp_path), start_from="{{ params.start }}")
    task.start_from = start_from  # as Airflow renders it
    refused(task, AirflowFailException, named)

    assert dump() == before
