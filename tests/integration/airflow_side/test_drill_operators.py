"""The operators that verify and that drill, on a real ZooKeeper; queries without state, so Spark is not asked."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.errors import StorageUnavailableError
from airflow_provider_ha.jobs.verification.verification_records import read_last_verification
from airflow_provider_ha.operators.restore_drill import SparkHaRestoreDrillOperator
from airflow_provider_ha.operators.verify_checkpoint import SparkHaVerifyCheckpointOperator
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.open_storage import open_store
from tests.support.airflow_exceptions import AirflowException, AirflowFailException
from tests.support.checkpoints.checkpoint_helpers import Job, led_job
from tests.support.checkpoints.portable_helpers import QUERY, checkpoint
from tests.support.clusters.airflow_helpers import context
from tests.support.spark.recorded_job import copy_live


DAG_FILE = Path(__file__).parents[3] / "dags" / "restore_drill.py"


@pytest.fixture
def job(config: HaConfig, coordinator: Coordinator, tmp_path: Path, airflow_connection: str) -> Iterator[Job]:
    """A job that runs, with a savepoint of batch 2."""
    del airflow_connection
    live = checkpoint(tmp_path / "live" / QUERY).parent
    with led_job(config, coordinator) as led:
        request = dataclasses.replace(led.request("s1", 2), cut={QUERY: 2}, graph="0" * 64)
        led.savepoints.create(led.leadership.commit, request, LocalTree(live))
        yield led


def damage(job: Job) -> None:
    (job.savepoints.directory("s1") / QUERY / "offsets" / "2").write_text("v1\n{}\n{}")


def drilling(**values: Any) -> SparkHaRestoreDrillOperator:
    return SparkHaRestoreDrillOperator(task_id="task", job_id="flights", start="False", **values)


def rendered(task: Any, **values: Any) -> Any:
    """Return a task with values as templates render to them: those that are given are refused at the import."""
    for name, value in values.items():
        setattr(task, name, value)
    return task


def verifying(**values: Any) -> SparkHaVerifyCheckpointOperator:
    return SparkHaVerifyCheckpointOperator(task_id="task", **values)


def test_the_last_verification_of_a_job_is_kept_for_its_page(job: Job, config: HaConfig) -> None:
    store, keys = open_store(config), JobKeys("flights")
    verifying(job_id="flights", depth="quick").execute(context(run_id="manual__good"))
    good = read_last_verification(store, keys)
    damage(job)

    with pytest.raises(AirflowFailException):
        verifying(job_id="flights", depth="full").execute(context(run_id="manual__bad"))
    bad = read_last_verification(store, keys)

    assert good is not None
    assert (good.source, good.restorable, good.depth, good.problem) == ("savepoint-s1", True, "quick", "")
    assert [(each.code, each.file, each.blocks) for each in good.findings] == [
        ("STATE_UNKNOWN", f"{QUERY}/state", False)
    ]
    assert "manual__good" in good.requested_by
    assert bad is not None
    assert (bad.restorable, bad.depth, bad.cut) == (False, "full", {QUERY: 2})
    assert bad.problem.startswith(f"{QUERY}/offsets/2: ")


def test_a_verification_that_cannot_be_kept_answers_all_the_same(
    job: Job, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise StorageUnavailableError("the disk is read-only")

    monkeypatch.setattr("airflow_provider_ha.jobs.verification.job_verification.write_last_verification", refuse)

    found = verifying(job_id="flights", depth="quick").execute(context())

    assert found["verdict"] == "startable"
    assert "the disk is read-only" in caplog.text


@pytest.mark.usefixtures("job")
def test_a_drill_returns_its_figures_and_a_retry_finds_them_again() -> None:
    first = drilling(max_age="7200", max_duration="").execute(context(ti_id="try-1"))

    assert (first["verdict"], first["source"], first["cut"]) == ("PASSED", "savepoint-s1", {QUERY: 2})
    assert first["seconds"]["verify"] > 0
    assert "requested_by" not in first
    assert drilling().execute(context(ti_id="try-2")) == first
    assert drilling().execute(context(run_id="manual__2"))["drill_id"] != first["drill_id"]


def test_a_drill_that_fails_burns_no_retry_and_names_the_file(job: Job) -> None:
    damage(job)

    with pytest.raises(AirflowFailException, match=f"savepoint-s1.*FAILED.*{QUERY}/offsets/2"):
        drilling().execute(context())


@pytest.mark.usefixtures("job")
def test_a_savepoint_that_is_too_old_fails_the_drill() -> None:
    with pytest.raises(AirflowFailException, match=r"s old, and at most 0\.001 s are allowed"):
        drilling(max_age=0.001).execute(context())


def test_a_spark_that_gives_no_answer_in_time_leaves_the_task_to_its_retries(
    config: HaConfig, coordinator: Coordinator, tmp_path: Path, airflow_connection: str
) -> None:
    assert airflow_connection
    with led_job(config, coordinator) as led:
        led.savepoints.create(led.leadership.commit, led.request("s1", 9), LocalTree(copy_live(tmp_path / "stateful")))

        for operator in (
            drilling(deadline=0.1),
            verifying(job_id="flights", depth="prove", start=False, deadline=0.1, fail_on="nothing"),
        ):
            with pytest.raises(AirflowException, match=r"not done after 0\.1 seconds") as caught:
                operator.execute(context())
            assert not isinstance(caught.value, AirflowFailException)


def test_a_limit_that_is_no_duration_is_refused() -> None:
    with pytest.raises(AirflowFailException, match="max_age='soon' is not a duration"):
        rendered(drilling(), max_age="soon").execute(context())


def weekly(**params: Any) -> Any:
    """Return the task of the DAG that we ship, rendered with *params* over its own."""
    spec = importlib.util.spec_from_file_location("restore_drill_dag", DAG_FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    own = {name: param.value for name, param in module.dag.params.items()}
    task = module.dag.get_task("drill")
    task.render_template_fields({"params": own | {"job_id": "flights", "start": False} | params})
    return task


@pytest.mark.usefixtures("job")
def test_the_weekly_dag_drills_within_its_limits_in_hours_and_minutes() -> None:
    task = weekly()

    assert (float(task.max_age), float(task.max_duration)) == (24 * 3600, 30 * 60)
    assert task.execute(context())["verdict"] == "PASSED"


@pytest.mark.usefixtures("job")
def test_the_weekly_dag_without_limits_accepts_any_age_and_duration() -> None:
    assert weekly(max_age=None, max_duration=None).execute(context())["verdict"] == "PASSED"


@pytest.mark.usefixtures("job")
def test_the_weekly_dag_fails_when_savepoints_have_stopped() -> None:
    with pytest.raises(AirflowFailException, match="s old, and at most"):
        weekly(max_age=1e-7).execute(context())


def test_a_directory_is_verified_without_a_connection(tmp_path: Path) -> None:
    place = checkpoint(tmp_path / QUERY)

    result = verifying(directory=str(place)).execute(context())

    assert (result["verdict"], result["latest"]) == ("startable", 2)
    assert not any(item["blocks"] for item in result["findings"])


def test_damage_fails_the_task_for_good_unless_an_older_batch_is_enough(tmp_path: Path) -> None:
    place = checkpoint(tmp_path / QUERY)
    (place / "offsets" / "2").write_text("v1\n{")

    with pytest.raises(AirflowFailException, match=r"is restorable: .*offsets/2"):
        verifying(directory=str(place)).execute(context())
    result = verifying(directory=str(place), fail_on="not_restorable").execute(context())

    assert (result["verdict"], result["restorable"], result["latest"]) == ("restorable", True, 1)
    assert "offsets/2" in {item["file"] for item in result["findings"]}
    assert len(json.dumps(result)) < 4000


def test_the_verification_of_a_missing_directory_is_retried(tmp_path: Path) -> None:
    with pytest.raises(AirflowException, match="could not be judged") as caught:
        verifying(directory=str(tmp_path / "absent"), fail_on="nothing").execute(context())

    assert not isinstance(caught.value, AirflowFailException)


def test_a_savepoint_of_a_job_is_verified_by_its_name(job: Job) -> None:
    good = verifying(job_id="flights", start_from="savepoint-s1").execute(context())
    damage(job)
    with pytest.raises(AirflowFailException, match=f"savepoint-s1 is not_restorable: {QUERY}/offsets/2"):
        verifying(job_id="flights").execute(context())

    assert (good["subject"], good["verdict"], good["cut"], good["problem"]) == (
        "savepoint-s1",
        "startable",
        {QUERY: 2},
        None,
    )


def test_spark_need_not_be_asked_about_a_query_without_state(job: Job) -> None:
    assert job.savepoints.list()

    result = verifying(job_id="flights", depth="prove", start=False).execute(context())

    assert (result["verdict"], result["proofs"][QUERY]["loaded"]) == ("startable", "nothing")


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({}, "Name a job, or a directory"),
        ({"job_id": "a", "directory": "/b"}, "Name a job, or a directory"),
        ({"job_id": "a", "sink": "/b"}, "a job knows its sinks"),
        ({"job_id": "a", "depth": "deep"}, "depth='deep' is unknown"),
        ({"job_id": "a", "fail_on": "monday"}, "fail_on='monday' is unknown"),
        ({"job_id": "a", "depth": "prove", "spark_version": "3.5.0"}, "a proof uses the installed Spark"),
        ({"directory": "/b", "depth": "prove", "deadline": "0"}, "deadline='0' is not a duration"),
        ({"directory": "/b", "depth": "prove", "heap": "much"}, "not an amount of memory"),
    ],
)
def test_bad_input_is_refused_in_so_many_words(values: dict[str, Any], reason: str) -> None:
    with pytest.raises(AirflowFailException, match=reason):
        rendered(verifying(), **values).execute(context())
