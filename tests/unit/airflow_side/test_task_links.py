"""The buttons of a task's page, and the XCom with its run."""

from __future__ import annotations

import importlib
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG, BaseOperatorLink

from airflow_provider_ha.airflow_side.compat import AIRFLOW_V_3_2_PLUS
from airflow_provider_ha.airflow_side.links import (
    XCOM_KEY,
    SparkHaDriverLogLink,
    SparkHaJobLink,
    SparkHaJobsLink,
    SparkHaSparkUiLink,
    TaskRun,
    known_run,
    note_run,
    report_facts,
    report_run,
)
from airflow_provider_ha.airflow_side.page_urls import job_of
from airflow_provider_ha.errors import NotConnectedError
from airflow_provider_ha.get_provider_info import get_provider_info
from airflow_provider_ha.jobs.drivers.driver_log import live_page, web_page
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.runs.run_store import RunView, SubmissionView
from airflow_provider_ha.jobs.runs.submissions import DriverHandle, SubmissionStarted
from airflow_provider_ha.jobs.status import JobStatus
from airflow_provider_ha.operators.follow import SparkHaFollowOperator
from airflow_provider_ha.operators.recover_jobs import SparkHaRecoverJobsOperator
from tests.support.clusters.airflow_helpers import context
from tests.support.clusters.jobs_helpers import a_leader, a_result, a_run, a_status, a_submission
from tests.support.public_classes import OPERATORS


CONN = "spark_ha_default"


def follow(job_id: str = "flights", **kwargs: Any) -> SparkHaFollowOperator:
    task = SparkHaFollowOperator(task_id="t", job_id="{{ job }}", **kwargs)
    task.job_id = job_id  # as a template renders it: of any letters
    return task


class Instance:
    """A running task instance, as far as links use it."""

    def __init__(self, **xcom: Any) -> None:
        self.xcom = xcom

    def xcom_pull(self, key: str) -> Any:
        return self.xcom.get(key)


@pytest.fixture
def base_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://air.example/team/flow/")
    monkeypatch.setattr("airflow.__version__", "3.1.0")


@pytest.fixture
def without_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow.__version__", "3.0.6")


@pytest.mark.parametrize("cls", OPERATORS, ids=lambda cls: cls.__name__)
def test_every_operator_and_sensor_has_links(cls: Any) -> None:
    names = [link.name for link in cls.operator_extra_links]

    assert names in (["Spark HA job", "Driver log", "Spark UI"], ["Spark HA jobs"])


def test_airflow_is_told_of_every_link() -> None:
    found = []
    for path in get_provider_info()["extra-links"]:
        module, _, name = path.rpartition(".")
        found.append(getattr(importlib.import_module(module), name))
    operators: list[Any] = list(OPERATORS)

    assert set(found) == {type(link) for cls in operators for link in cls.operator_extra_links}
    assert all(issubclass(link, BaseOperatorLink) for link in found)


@pytest.mark.usefixtures("base_url")
def test_links_lead_below_the_path_of_airflow() -> None:
    task = follow("a/b c")
    note_run(task, TaskRun(7))

    links = [link.get_link(task, ti_key=Instance()) for link in task.operator_extra_links]

    job, cluster = "https://air.example/team/flow/spark-ha/jobs/a%2Fb%20c", "?cluster=spark_ha_default"
    assert links == [f"{job}{cluster}", f"{job}/log{cluster}&run=7", f"{job}/spark-ui{cluster}&run=7"]


def test_a_link_without_a_base_url_is_a_path_of_its_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow.__version__", "3.1.0")
    monkeypatch.delenv("AIRFLOW__API__BASE_URL", raising=False)

    assert SparkHaJobLink().get_link(follow(), ti_key=Instance()) == "/spark-ha/jobs/flights?cluster=spark_ha_default"


@pytest.mark.usefixtures("base_url")
def test_a_link_to_a_job_says_which_job_it_is() -> None:
    task = follow("a/b c", spark_ha_conn_id="prod & more")
    job, log, spark = [link.get_link(task, ti_key=Instance()) for link in task.operator_extra_links]

    assert job_of(job) == ("prod & more", "a/b c")
    assert [job_of(url) for url in (log, spark, "", "http://[", "/spark-ha/jobs/?cluster=c", "/spark-ha/jobs/j")] == [
        None
    ] * 6


@pytest.mark.usefixtures("base_url")
def test_a_task_that_knows_no_run_leads_to_the_newest_one() -> None:
    link = SparkHaSparkUiLink().get_link(follow(), ti_key=Instance())

    assert link.endswith("/jobs/flights/spark-ui?cluster=spark_ha_default")


@pytest.mark.usefixtures("base_url")
def test_a_task_for_all_jobs_leads_to_their_list() -> None:
    task = SparkHaRecoverJobsOperator(task_id="t", spark_ha_conn_id="prod")

    assert SparkHaJobsLink().get_link(task, ti_key=Instance()) == "https://air.example/team/flow/spark-ha/?cluster=prod"


@pytest.mark.usefixtures("without_page")
def test_an_airflow_without_the_page_gets_what_the_task_knows() -> None:
    task = follow()
    note_run(task, TaskRun(7, log_page="http://worker:8081/logPage", spark_ui="http://driver:4040"))

    links = [link.get_link(task, ti_key=Instance()) for link in task.operator_extra_links]

    assert links == ["", "http://worker:8081/logPage", "http://driver:4040"]


@pytest.mark.usefixtures("without_page")
def test_a_resumed_task_keeps_the_links_of_the_one_that_deferred() -> None:
    before = Instance(_link_SparkHaSparkUiLink="http://driver:4040")

    assert SparkHaSparkUiLink().get_link(follow(), ti_key=before) == "http://driver:4040"
    assert SparkHaDriverLogLink().get_link(follow(), ti_key=before) == ""
    assert SparkHaDriverLogLink().get_link(follow(), ti_key=None) == "", "and no link ends in a stack trace"


def test_links_survive_the_serialization_of_their_dag() -> None:
    from airflow.serialization import serialized_objects

    serialization: Any = getattr(serialized_objects, "DagSerialization" if AIRFLOW_V_3_2_PLUS else "SerializedDAG")
    with DAG("d", schedule=None) as dag:
        follow()

    task = serialization.from_dict(serialization.to_dict(dag)).get_task("t")

    assert {(link.name, link.xcom_key) for link in task.operator_extra_links} == {
        ("Spark HA job", "_link_SparkHaJobLink"),
        ("Driver log", "_link_SparkHaDriverLogLink"),
        ("Spark UI", "_link_SparkHaSparkUiLink"),
    }


def client(snapshot: JobStatus | NotConnectedError, history_server: str | None = None) -> Any:
    def look() -> JobStatus:
        if isinstance(snapshot, NotConnectedError):
            raise snapshot
        return snapshot

    job = SimpleNamespace(snapshot=look)
    return SimpleNamespace(job=lambda _: job, config=SimpleNamespace(history_server=history_server))


def a_job(*, leader: bool = True, ended: bool = False, ui: str = "http://driver:4040") -> JobStatus:
    handle = DriverHandle(engine="standalone", ui_uri="http://worker:8081/logPage")
    submitted = SubmissionView(a_submission(1), started=SubmissionStarted(handle=handle))
    status = a_status(JobState.RUNNING, epoch=4, run=2).model_copy(update={"spark_ui": ui, "application_id": "app-1"})
    return JobStatus(
        job_id="flights",
        leader=a_leader(4, run=2) if leader else None,
        epoch=4,
        run=RunView(a_run(2), submissions=(submitted,), result=a_result() if ended else None),
        status=status,
    )


def told(snapshot: JobStatus | NotConnectedError, *, run: int = 2, history: str | None = None) -> tuple[Any, Any]:
    """Return the XCom and what the links know."""
    task, given = follow(), context()
    report_run(task, given, client(snapshot, history), run, operation_id="o")
    return given["ti"].xcom[XCOM_KEY], known_run(task)


def test_a_task_tells_its_run_and_epoch_as_soon_as_there_is_one() -> None:
    xcom, known = told(a_job())

    assert xcom == {"job_id": "flights", "run": 2, "attempt": 1, "epoch": 4, "operation_id": "o", "conn_id": CONN}
    assert known == TaskRun(2, "http://worker:8081/logPage", "http://driver:4040")


def test_the_epoch_of_another_run_is_not_told() -> None:
    """A new run has no epoch before its driver leads: the counter still shows the last one."""
    assert "epoch" not in told(a_job(leader=False))[0]
    assert "epoch" not in told(replace(a_job(), leader=a_leader(4, run=1)))[0]
    assert told(a_job(), run=1)[0] == {"job_id": "flights", "run": 1, "operation_id": "o", "conn_id": CONN}


@pytest.mark.parametrize(
    ("snapshot", "shown"),
    [
        (a_job(), "http://driver:4040"),
        (a_job(ui=""), "https://history:18080/history/app-1/"),
        (a_job(leader=False), "https://history:18080/history/app-1/"),
        (a_job(ended=True), "https://history:18080/history/app-1/"),
        (a_job(ui="javascript:alert(1)"), "https://history:18080/history/app-1/"),
        (a_job(ui="http://u:p@driver:4040"), "https://history:18080/history/app-1/"),
    ],
)
def test_spark_is_shown_by_its_driver_while_it_leads_and_by_the_history_server_afterwards(
    snapshot: JobStatus, shown: str
) -> None:
    assert told(snapshot, history="https://history:18080")[1].spark_ui == shown


@pytest.mark.parametrize(
    ("url", "link"),
    [
        ("http://driver:4040", "http://driver:4040"),
        ("https://gate/spark/proxy/app-1", "https://gate/spark/proxy/app-1"),
        ("javascript://driver/%0aalert(1)", ""),
        ("http://user:password@driver:4040", ""),
        ("http://driver:4040/ x", ""),
        ("http://driver:4040/\n", ""),
        ("http:///path", ""),
        ("http://[::1", ""),
        ("", ""),
    ],
)
def test_what_a_record_says_becomes_a_link_only_when_a_browser_may_follow_it(url: str, link: str) -> None:
    assert web_page(url) == link


def test_the_ui_of_an_earlier_driver_is_not_shown() -> None:
    snapshot = replace(a_job(), leader=a_leader(5, run=2), epoch=5)

    assert live_page(snapshot) == ""
    assert live_page(a_job()) == "http://driver:4040"


def test_what_cannot_be_told_fails_no_task() -> None:
    def down(**_: Any) -> None:
        raise RuntimeError("API server is down")

    task, given = follow(), context()
    given["ti"].xcom_push = down

    report_facts(task, given, {"run": 3})

    assert told(NotConnectedError("ZooKeeper is down"))[0] == {
        "job_id": "flights",
        "run": 2,
        "operation_id": "o",
        "conn_id": CONN,
    }
    assert known_run(task) == TaskRun(3)
