"""What the standalone engine makes of the words of its masters. A small server plays their REST servers."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.embedded import free_port
from airflow_provider_ha.errors import (
    ConfigurationError,
    EngineUnavailableError,
    HaError,
    OutcomeUnknownError,
)
from airflow_provider_ha.host.engines.engine import (
    GoneSubmission,
    Observation,
    PendingSubmission,
    RunningSubmission,
    UnknownSubmission,
    observe_one,
)
from airflow_provider_ha.host.engines.standalone import StandaloneEngine, properties_of
from airflow_provider_ha.jobs.drivers.driver_home import Ticket
from airflow_provider_ha.jobs.job_graph import Artifact, Blob, JobGraph, Target
from airflow_provider_ha.jobs.runs.submissions import DriverHandle
from airflow_provider_ha.storage.blobs import put_blob
from airflow_provider_ha.storage.open_storage import open_store


STANDBY = {
    "success": False,
    "message": "Exception from the cluster:\njava.lang.Exception: Current state is not alive: STANDBY. Can only accept "
    "driver submissions in ALIVE state.\n\torg.apache.spark.Some.place(Master.scala:494)",
}
TAKEN = {"success": True, "submissionId": "driver-1"}
LOST: dict[str, Any] = {}  # no answer comes


class Masters:
    """Masters that answer as they are told to, and remember what they were asked."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self.asked: list[tuple[int, str, Any]] = []

    def __call__(self, *answers: dict[str, Any]) -> str:
        """Start a master for each answer; returns their addresses, as the engine's option has them."""
        ports = [self._start(number, answer) for number, answer in enumerate(answers)]
        return ",".join(f"127.0.0.1:{port}" for port in ports)

    def _start(self, number: int, answer: dict[str, Any]) -> int:
        asked = self.asked

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                asked.append((number, self.path, body))
                self._answer()

            def do_GET(self) -> None:
                asked.append((number, self.path, None))
                self._answer()

            def _answer(self) -> None:
                if answer is LOST:
                    self.connection.close()
                    return
                data = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *words: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        self._stack.callback(thread.join)
        self._stack.callback(server.server_close)
        self._stack.callback(server.shutdown)
        return int(server.server_address[1])


@pytest.fixture
def masters() -> Iterator[Masters]:
    with ExitStack() as stack:
        yield Masters(stack)


@pytest.fixture
def config(tmp_path: Path) -> HaConfig:
    return HaConfig.build(zookeeper="127.0.0.1:1", storage_root=f"file://{tmp_path}/storage")


@pytest.fixture
def engine(config: HaConfig) -> StandaloneEngine:
    return StandaloneEngine(config, sleep=lambda seconds: None)


@pytest.fixture
def launch(config: HaConfig, engine: StandaloneEngine) -> Callable[..., DriverHandle]:
    """Launch a graph on masters whose REST servers are at *rest*."""

    def launch(rest: str, *, conf: dict[str, str] | None = None, **options: str) -> DriverHandle:
        target = Target(
            engine="standalone", master="spark://a:7077,b:7077", engine_options={"rest_masters": rest, **options}
        )
        graph = JobGraph(
            job_id="flights",
            name="the user's name",
            application=Artifact(name="app.py", blob=Blob(sha256="a" * 64, size=1)),
            arguments=("argument-secret",),
            conf={"spark.hadoop.fs.s3a.secret.key": "conf-secret"} | (conf or {}),
            env={"TOKEN": "env-secret"},
            target=target,
            driver_memory="2g",
        )
        ref = put_blob(open_store(config), graph.to_bytes())
        blob = Blob(sha256=ref.sha256, size=ref.size)
        return engine.launch(Ticket(job_id="flights", run=3, attempt=2, submission_id="b" * 32, graph=blob), None)

    return launch


def observed(engine: StandaloneEngine, rest: str) -> Observation:
    return observe_one(engine, "b" * 32, handle(rest))


def handle(rest: str) -> DriverHandle:
    urls = ",".join(f"http://{server}" for server in rest.split(","))
    return DriverHandle(engine="standalone", ref={"masters": urls, "driver": "driver-1"})


def state(name: str) -> dict[str, Any]:
    return {"success": True, "submissionId": "driver-1", "driverState": name, "workerHostPort": "w:1"}


def test_the_active_one_of_the_masters_is_given_the_driver(
    masters: Masters, launch: Callable[..., DriverHandle]
) -> None:
    rest = masters(STANDBY, TAKEN, TAKEN)

    taken = launch(f"127.0.0.1:{free_port()},{rest}")

    assert taken.ref["driver"] == "driver-1"
    assert [number for number, _, _ in masters.asked] == [0, 1]


def test_a_request_without_an_answer_is_sent_to_no_other_master(
    masters: Masters, launch: Callable[..., DriverHandle]
) -> None:
    with pytest.raises(OutcomeUnknownError, match="it is unknown whether a driver was launched"):
        launch(masters(LOST, TAKEN))

    assert [number for number, _, _ in masters.asked] == [0]


def test_without_an_active_master_nothing_was_launched_and_the_error_says_why(
    masters: Masters, launch: Callable[..., DriverHandle]
) -> None:
    rest = masters(STANDBY)

    with pytest.raises(EngineUnavailableError, match="is STANDBY") as refused:
        launch(f"{rest},127.0.0.1:{free_port()}")

    assert "cannot be reached" in refused.value.message
    assert "spark.authenticate.secret" in refused.value.next_step


def test_what_the_active_master_refuses_is_told_in_its_words(
    masters: Masters, launch: Callable[..., DriverHandle]
) -> None:
    refusal = {"success": False, "message": "Unexpected value for property\n\tat some.place(File.scala:1)"}

    with pytest.raises(ConfigurationError, match="refuses the driver: Unexpected value for property") as refused:
        launch(masters(refusal))

    assert "File.scala" not in str(refused.value)


def test_the_request_holds_nothing_of_the_user_s_and_no_secret(
    masters: Masters, launch: Callable[..., DriverHandle]
) -> None:
    launch(masters(TAKEN), config_file="/etc/spark-ha.json", python="/opt/python")

    _, _, body = masters.asked[0]
    text = json.dumps(body)

    assert not [each for each in ("-secret", "the user's name") if each in text]
    assert body["sparkProperties"]["spark.driver.memory"] == "2g"
    assert body["sparkProperties"]["spark.driver.supervise"] == "false"
    assert body["environmentVariables"]["SPARK_HA_CONFIG_FILE"] == "/etc/spark-ha.json"
    assert body["environmentVariables"]["PYSPARK_PYTHON"] == "/opt/python"


@pytest.mark.parametrize("name", ["FINISHED", "FAILED", "KILLED"])
def test_an_end_that_a_worker_saw_is_a_proof(name: str, engine: StandaloneEngine, masters: Masters) -> None:
    seen = observed(engine, masters(STANDBY, state(name)))

    assert seen == GoneSubmission(f"driver-1 is {name}: the worker w:1 saw its JVM exit")


@pytest.mark.parametrize("name", ["ERROR", "RELAUNCHING", "UNKNOWN", "NEW_IN_SPARK_5"])
def test_every_other_state_proves_nothing(name: str, engine: StandaloneEngine, masters: Masters) -> None:
    seen = observed(engine, masters(state(name)))

    assert isinstance(seen, UnknownSubmission)
    assert name in seen.reason


def test_a_driver_that_the_active_master_does_not_know_may_live(engine: StandaloneEngine, masters: Masters) -> None:
    seen = observed(engine, masters({"success": False, "message": "", "submissionId": "driver-1"}))

    assert isinstance(seen, UnknownSubmission)


def test_masters_that_do_not_answer_prove_nothing(engine: StandaloneEngine, masters: Masters) -> None:
    seen = observed(engine, f"{masters(LOST)},127.0.0.1:{free_port()}")

    assert isinstance(seen, UnknownSubmission)
    assert "did not answer" in seen.reason
    assert "cannot be reached" in seen.reason


def test_a_queued_driver_is_pending(engine: StandaloneEngine, masters: Masters) -> None:
    assert isinstance(observed(engine, masters(state("SUBMITTED"))), PendingSubmission)


@pytest.mark.parametrize("other", ["FAILED", "ERROR", "SUBMITTED"])
def test_of_two_masters_that_both_lead_the_one_that_sees_it_run_counts(
    other: str, engine: StandaloneEngine, masters: Masters
) -> None:
    rest = masters(state(other), state("RUNNING"))

    seen = observed(engine, rest)

    assert isinstance(seen, RunningSubmission)
    assert (seen.handle, f"driver-1 is {other}" in seen.doubt) == (handle(rest), True)


def test_of_two_masters_that_both_lead_one_alone_proves_nothing(engine: StandaloneEngine, masters: Masters) -> None:
    assert isinstance(observed(engine, masters(state("FAILED"), state("ERROR"))), UnknownSubmission)


def test_the_end_of_a_jvm_is_a_proof_a_moment_later(config: HaConfig, masters: Masters) -> None:
    pauses: list[float] = []
    engine = StandaloneEngine(config, sleep=pauses.append)

    observed(engine, masters(state("FINISHED")))
    assert pauses == []
    for name in ("KILLED", "KILLED"):
        observed(engine, masters(state(name)))

    assert pauses == [1.0]


def test_a_driver_is_ended_by_the_active_master(engine: StandaloneEngine, masters: Masters) -> None:
    engine.terminate(handle(masters(STANDBY, {"success": True})))

    assert masters.asked[-1][:2] == (1, "/v1/submissions/kill/driver-1")


def test_each_master_answers_a_probe_with_its_state_and_its_release(engine: StandaloneEngine, masters: Masters) -> None:
    active = {"success": False, "message": "no such driver", "serverSparkVersion": "4.1.0"}
    rest = masters(STANDBY | {"serverSparkVersion": "4.1.0"}, active, LOST)
    target = Target(engine="standalone", master="spark://a:7077", engine_options={"rest_masters": rest})

    found = list(engine.probe(target))

    assert [(each.usable, each.spark) for each in found] == [(False, (4, 1, 0)), (True, (4, 1, 0)), (False, None)]
    assert [each.answer for each in found[:2]] == ["STANDBY", "active"]
    assert "did not answer" in found[2].answer


def test_without_an_active_master_a_driver_cannot_be_ended(engine: StandaloneEngine, masters: Masters) -> None:
    with pytest.raises(EngineUnavailableError, match="driver-1 could not be ended"):
        engine.terminate(handle(masters(STANDBY, LOST)))


@pytest.mark.parametrize("master", ["local[2]", "yarn", "spark://host", "spark://a:7077,", "spark://a:7077/b"])
def test_a_master_that_is_no_standalone_cluster_is_refused(master: str, engine: StandaloneEngine) -> None:
    with pytest.raises(ConfigurationError, match="is not that of a standalone cluster"):
        engine.check(Target(engine="standalone", master=master))


@pytest.mark.parametrize(
    "options", [{"rest_port": "http"}, {"rest_scheme": "ftp"}, {"supervise": "true"}, {"rest_masters": "a"}]
)
def test_options_that_cannot_work_are_refused_before_anything_is_made(
    options: dict[str, str], engine: StandaloneEngine
) -> None:
    with pytest.raises(HaError):
        engine.check(Target(engine="standalone", master="spark://a:7077", engine_options=options))


def test_a_deploy_mode_is_refused(engine: StandaloneEngine) -> None:
    with pytest.raises(ConfigurationError, match="has no deploy mode cluster"):
        engine.check(Target(engine="standalone", master="spark://a:7077", deploy_mode="cluster"))


def test_of_the_conf_the_masters_see_how_processes_authenticate_and_no_secret() -> None:
    conf = {
        "spark.authenticate": "true",
        "spark.authenticate.secret": "hidden",
        "spark.network.crypto.enabled": "true",
        "spark.ssl.rpc.keyPassword": "hidden",
        "spark.sql.shuffle.partitions": "2",
    }
    graph = JobGraph(
        job_id="j",
        name="j",
        application=Artifact(name="a.py", blob=Blob(sha256="0" * 64, size=1)),
        conf=conf,
        target=Target(engine="standalone", master="spark://a:7077"),
    )
    ticket = Ticket(job_id="j", run=1, attempt=1, submission_id="s", graph=Blob(sha256="0" * 64, size=1))

    seen = properties_of(graph, ticket)

    assert {key: seen[key] for key in seen if key in conf} == {
        "spark.authenticate": "true",
        "spark.network.crypto.enabled": "true",
    }
    assert "hidden" not in seen.values()
