"""``spark-ha job submit`` on a real cluster: supervisor, sessions and signals are real, Spark is a stand-in."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import psutil
import pytest

from airflow_provider_ha.checkpoints.plan_model import Verdict
from airflow_provider_ha.coordination.coordinator import Create
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters import submit_helpers as helpers
from tests.support.clusters.jobs_helpers import a_result
from tests.support.ctrl_c import spark_ha_with_ctrl_c


pytestmark = pytest.mark.timeout(300)
YES, NO, UNKNOWN, WRONG_CALL = 0, 1, 2, 64
DETACHED = ("--env", "STAND_IN=wait", "--wait-for", "none")


@pytest.fixture
def app(tmp_path: Path) -> str:
    return str(helpers.script(tmp_path))


def test_every_word_is_in_the_graph(spark_ha: Any, copy: JobContext, app: str, tmp_path: Path) -> None:
    properties = tmp_path / "secrets.conf"
    properties.write_text("# of the bucket\nspark.hadoop.fs.s3a.secret.key  hidden\nspark.one = from-file\n")
    data = tmp_path / "cities.csv"
    data.write_text("Bern")

    code, out, err = spark_ha(
        *("job", "submit", "copy", app, *DETACHED, "--json", "--name", "Copy", "--request-id", "release-17"),
        *("--conf", "spark.one=from-line", "--properties-file", str(properties), "--env", "TOKEN=x"),
        *("--files", str(data), "--packages", "org:a:1,org:b:2", "--packages", "org:c:3", "--repositories", "http://r"),
        *("--driver-memory", "1g", "--executor-cores", "2", "--num-executors", "3", "--master", "local[2]"),
        *("--restart-attempts", "4", "--no-restart-in-place", "--checkpoint-interval", "5", "--allow-new-queries"),
        *("--kafka-bootstrap", "q=host:9092", "--job-owner", "nightly", "--engine-options", "python=/usr/bin/python3"),
        *("--", "--input", "/data/in"),
    )

    assert (code, json.loads(out)["created"]) == (YES, True), err
    view = copy.runs.get(1)
    graph = copy.graph_of(view.run)
    assert (graph.name, graph.arguments) == ("Copy", ("--input", "/data/in"))
    assert graph.conf == {
        "spark.hadoop.fs.s3a.secret.key": "hidden",
        "spark.one": "from-line",
        "spark.executor.cores": "2",
        "spark.executor.instances": "3",
        "spark.jars.repositories": "http://r",
    }
    assert (graph.env, graph.packages) == ({"STAND_IN": "wait", "TOKEN": "x"}, ("org:a:1", "org:b:2", "org:c:3"))
    assert (graph.driver_memory, graph.target.master) == ("1g", "local[2]")
    assert graph.target.engine_options == {"python": "/usr/bin/python3"}
    assert [file.name for file in graph.files] == ["cities.csv"]
    options = graph.options
    assert (options.restart_attempts, options.restart_in_place, options.checkpoint_interval) == (4, False, 5.0)
    assert (options.allow_new_queries, options.kafka_bootstrap) == (True, {"q": "host:9092"})
    assert (view.run.owner, view.run.request_id) == ("nightly", "release-17")


def test_a_repeated_request_makes_no_second_run(spark_ha: Any, copy: JobContext, app: str) -> None:
    words = ("job", "submit", "copy", app, *DETACHED, "--request-id", "tonight")

    first, second = spark_ha(*words, "--json"), spark_ha(*words, "--json")

    assert (first[0], second[0]) == (YES, YES)
    assert [json.loads(each[1])["created"] for each in (first, second)] == [True, False]
    assert "was submitted by an earlier request of this id" in second[2]
    assert copy.runs.numbers() == [1]


def test_a_job_with_a_live_run_is_refused(spark_ha: Any, copy: JobContext, app: str) -> None:
    spark_ha("job", "submit", "copy", app, *DETACHED)

    code, _, err = spark_ha("job", "submit", "copy", app, *DETACHED)

    assert code == NO
    assert "already has a live run" in err
    assert "spark-ha job stop copy" in err
    assert copy.runs.numbers() == [1]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--request-id", "a#b"), "request id 'a#b' cannot be used"),
        (("--env", "NO_SUCH_VARIABLE"), "this command has no such variable"),
        (("--conf", "spark.one"), "--conf 'spark.one' cannot be read"),
        (("--conf", "one=1"), "'one' is not a Spark conf key"),
        (("--properties-file", "/nowhere/x.conf"), "the properties file '/nowhere/x.conf' cannot be read"),
        (("--files", "/nowhere/x.csv"), "/nowhere/x.csv"),
        (("--engine", "yarn"), "engine 'yarn' is not known here"),
        (("--retained-checkpoints", "0"), "retained_checkpoints"),
        (("--master", "spark://host:7077"), "--allow-remote-executors"),
        (("--start-from", "checkpoint-1", "--start-from", "fresh"), "names no directories"),
        (("--sinks", "q=/out"), "Remove --sinks"),
        (("--spark-conn-id", "spark_default"), "Use `airflow ha job submit`"),
        (("--no-such-option",), "No such option"),
    ],
)
def test_a_mistake_is_one_sentence_and_changes_nothing(
    spark_ha: Any, copy: JobContext, app: str, words: tuple[str, ...], reason: str
) -> None:
    code, _, err = spark_ha("job", "submit", "copy", app, *DETACHED, *words)

    assert code == WRONG_CALL
    assert reason in " ".join(err.split())
    assert copy.coordinator.find(copy.paths.base) is None


def test_a_checkpoint_that_is_not_there_is_unknown_and_changes_nothing(
    spark_ha: Any, copy: JobContext, app: str
) -> None:
    code, _, err = spark_ha("job", "submit", "copy", app, *DETACHED, "--start-from", "/nowhere/q")

    assert code == UNKNOWN  # its file system may not be mounted
    assert "/nowhere/q" in err
    assert copy.coordinator.find(copy.paths.base) is None


def test_a_script_that_is_missing_is_refused(spark_ha: Any, copy: JobContext) -> None:
    code, _, err = spark_ha("job", "submit", "copy", "/nowhere/app.py", *DETACHED)

    assert code == WRONG_CALL
    assert "/nowhere/app.py" in err
    assert copy.coordinator.find(copy.paths.base) is None


def test_storage_that_cannot_be_written_is_refused(
    spark_ha: Any, copy: JobContext, app: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "no-directory").write_text("a file")
    monkeypatch.setenv("SPARK_HA_STORAGE_ROOT", f"file://{tmp_path / 'no-directory'}")

    code, _, err = spark_ha("job", "submit", "copy", app, *DETACHED)

    assert code == UNKNOWN
    assert "no-directory" in err
    assert copy.coordinator.find(copy.paths.base) is None


@pytest.mark.usefixtures("copy")
def test_a_secret_on_the_command_line_is_warned_about(spark_ha: Any, app: str) -> None:
    _, _, err = spark_ha(
        "job", "submit", "copy", app, *DETACHED, "--conf", "spark.hadoop.fs.s3a.secret.key=abc", "--env", "TOKEN=def"
    )

    assert "the value of spark.hadoop.fs.s3a.secret.key is in the process list" in err
    assert "the value of TOKEN is in the process list" in err
    assert "abc" not in err


def test_a_secret_among_the_arguments_is_warned_about_and_not_shown(spark_ha: Any, copy: JobContext, app: str) -> None:
    secrets = ("--password=hunter2-a", "--api-token", "hunter2-b", "jdbc:postgresql://app:hunter2-c@db/prod")

    _, out, err = spark_ha("job", "submit", "copy", app, *DETACHED, "--", "--since", "now", *secrets)
    _, graph, _ = spark_ha("job", "graph", "copy", "--json")

    for name in ("--password", "--api-token", "argument 6"):
        assert f"the value of {name} is in the process list, and is stored in the job graph" in " ".join(err.split())
    assert err.count("is stored in the job graph") == 3
    assert json.loads(graph)["arguments"] == [
        *("--since", "now", "--password=***", "--api-token", "***", "jdbc:postgresql://app:***@db/prod")
    ]
    assert "hunter2" not in out + err + graph
    run = copy.runs.latest()
    assert run is not None
    assert copy.graph(run.run.graph).arguments[2:] == secrets


def test_secrets_of_a_file_are_in_no_process_list(spark_ha: Any, copy: JobContext, app: str, tmp_path: Path) -> None:
    properties = tmp_path / "secrets.conf"
    properties.write_text("spark.hadoop.fs.s3a.secret.key only-in-a-file\n")

    spark_ha("job", "submit", "copy", app, *DETACHED, "--properties-file", str(properties))
    wait_until(lambda: helpers.pid_in(copy, "jvm.pid"), timeout=60, what="the JVM")

    processes = helpers.processes_of(copy.runs.get(1).submissions[0].submission)
    assert len(processes) >= 2
    assert not [process for process in processes if "only-in-a-file" in " ".join(process.cmdline())]


@pytest.mark.long
def test_a_driver_that_is_lost_during_the_wait_is_submitted_again(spark_ha: Any, copy: JobContext, app: str) -> None:
    code, out, err = spark_ha(
        *("job", "submit", "copy", app, "--env", "STAND_IN=die", "--wait-for", "finished", "--wait", "60", "--json"),
        *("--no-restart-in-place", "--restart-delay", "0.05", "--restart-attempts", "1"),
    )

    shown = json.loads(out)
    assert (code, shown["state"], shown["attempt"]) == (NO, JobState.FAILED.value, 2), err
    assert shown["reason"]
    assert [each.submission.attempt for each in copy.runs.get(1).submissions] == [1, 2]


@pytest.mark.usefixtures("copy")
def test_a_run_that_does_not_come_up_in_time_goes_on(spark_ha: Any, app: str) -> None:
    code, _, err = spark_ha("job", "submit", "copy", app, "--env", "STAND_IN=wait", "--wait", "0.5")

    assert code == UNKNOWN
    assert "run 1 of job 'copy' is not running within 0.5 s; it continues. Now " in err
    assert "attempt 1 has no leader yet" in err.partition("it continues. Now ")[2]


def shell(app: str, output: Path) -> subprocess.Popen[bytes]:
    """Start the command as a job of a shell: in its own session and process group, with Ctrl-C."""
    words = ("job", "submit", "copy", app, "--env", "STAND_IN=wait", "--request-id", "r-1", "--wait", "250")
    with output.open("wb") as file:
        return subprocess.Popen(spark_ha_with_ctrl_c(*words), stdout=file, stderr=file, start_new_session=True)


@pytest.mark.usefixtures("environment")
def test_ctrl_c_ends_the_wait_and_not_the_job(copy: JobContext, app: str, tmp_path: Path) -> None:
    said = tmp_path / "said"
    command = shell(app, said)
    jvm = wait_until(lambda: helpers.pid_in(copy, "jvm.pid"), timeout=60, what="the JVM")
    wait_until(lambda: b"(attempt 1)" in said.read_bytes(), timeout=60, what="the submission")

    os.killpg(command.pid, signal.SIGINT)

    assert command.wait(60) == UNKNOWN
    text = said.read_text()
    assert "detached: run 1 of job copy continues" in text
    assert "spark-ha job logs copy --follow" in text
    assert "spark-ha job stop copy" in text
    assert "Traceback" not in text
    assert helpers.alive(jvm)


@pytest.mark.usefixtures("environment")
def test_the_driver_outlives_a_shell_that_is_killed(copy: JobContext, app: str, tmp_path: Path) -> None:
    command = shell(app, tmp_path / "said")
    jvm = wait_until(lambda: helpers.pid_in(copy, "jvm.pid"), timeout=60, what="the JVM")
    session = os.getsid(command.pid)

    os.killpg(command.pid, signal.SIGKILL)
    command.wait(60)

    assert helpers.alive(jvm)
    assert os.getsid(psutil.Process(jvm).ppid()) != session


@pytest.mark.usefixtures("copy")
def test_verdicts_are_accepted_by_name(spark_ha: Any, app: str) -> None:
    code, _, err = spark_ha("job", "submit", "copy", app, *DETACHED, "--accept-verdicts", Verdict.LOSS_POSSIBLE.value)

    assert code == YES, err


def test_the_reason_of_a_refused_run_is_shown_as_it_was_recorded(spark_ha: Any, copy: JobContext, app: str) -> None:
    spark_ha("job", "submit", "copy", app, *DETACHED)
    result = a_result(JobState.FAILED).model_copy(update={"reason": "Submit with start_from='fresh'"})
    copy.coordinator.commit(Create(copy.paths.run_result(1), result.to_bytes()))

    assert "Submit with start_from='fresh'" in spark_ha("job", "show", "copy")[1]
    assert result.reason in spark_ha("job", "show", "copy", "--json")[1]
