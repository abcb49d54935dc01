"""Everything that can end a driver on a standalone cluster: what the masters say of it then, and what is true.

Masters, workers and REST servers are Spark's own, each worker on a test host; supervisor, ZooKeeper and signals are
real; a stand-in plays spark-submit on the host (``tests.support.clusters.submit_helpers``).
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.errors import EngineUnavailableError
from airflow_provider_ha.host.engines.engine import (
    GoneSubmission,
    PendingSubmission,
    RunningSubmission,
    UnknownSubmission,
    observe_one,
)
from airflow_provider_ha.host.engines.registry import Engines
from airflow_provider_ha.host.engines.standalone import StandaloneEngine
from airflow_provider_ha.jobs.drivers.spark_release import release_of
from airflow_provider_ha.jobs.submit.launch import ensure_submitted
from airflow_provider_ha.testing.waiting import wait_until
from airflow_provider_ha.timings import Timings
from tests.support.clusters.standalone_cluster import (
    PATIENCE,
    TERMINATE_SECONDS,
    StandaloneCluster,
    TestHost,
    can_make_hosts,
    spark_home,
    standalone_cluster,
)
from tests.support.clusters.standalone_jobs import OPTIONS, StandaloneJob
from tests.support.engine_deaths.play import (
    LosesTheAnswer,
    Outcome,
    lost_without_masters,
    masters_away,
    worker_gives_up,
)
from tests.support.engine_deaths.stage import one_job


pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not can_make_hosts(), reason="this host does not let a test make namespaces"),
]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    """One cluster for the module: two masters, two hosts."""
    with standalone_cluster(tmp_path_factory.mktemp("standalone"), masters=2, hosts=2) as cluster:
        yield cluster


@pytest.fixture
def config(config: HaConfig) -> HaConfig:
    """A cluster whose sessions bear a busy machine: no session is lost here."""
    return config.model_copy(update={"timings": Timings()})


@pytest.fixture
def submitted(
    shared: StandaloneCluster, config: HaConfig, coordinator: Coordinator, tmp_path: Path
) -> Iterator[StandaloneJob]:
    """The job; it is not submitted yet, and the cluster is whole."""
    with one_job(config, coordinator, shared, tmp_path) as job:
        yield job


def await_end(job: StandaloneJob) -> None:
    wait_until(lambda: not job.processes(), timeout=PATIENCE, what="the end of all processes")


def test_a_kill_by_the_cluster_is_proven_and_every_process_is_dead_by_then(submitted: StandaloneJob) -> None:
    # Without the pause before a proof: the JVM waits for its supervisor, so nothing is left when it has ended.
    engine = StandaloneEngine(submitted.job.config, sleep=lambda seconds: None)
    submitted.job = replace(submitted.job, engines=Engines({StandaloneEngine.name: engine}))
    submitted.submit()
    submitted.await_driver()

    submitted.engine.terminate(submitted.handle)
    proof = submitted.await_gone()

    assert "is KILLED" in proof.proof
    assert submitted.processes() == []
    ended = submitted.newest.exit
    assert ended is not None, "the JVM waits for its supervisor, and that one for its report"
    assert "received a stop signal" in ended.reason


@pytest.mark.hours
def test_a_killed_jvm_takes_the_driver_s_python_along(submitted: StandaloneJob) -> None:
    submitted.submit()
    host = submitted.await_driver()

    host.jvm_of(submitted.submission_id).kill()
    proof = submitted.await_gone()

    assert "is FAILED" in proof.proof
    await_end(submitted)
    assert submitted.await_exit().pids


@pytest.mark.hours
def test_a_stopped_jvm_is_killed_by_its_worker_after_a_while(submitted: StandaloneJob) -> None:
    submitted.submit()
    host = submitted.await_driver()

    host.jvm_of(submitted.submission_id).send_signal(signal.SIGSTOP)
    submitted.engine.terminate(submitted.handle)
    proof = submitted.await_gone()

    assert "is KILLED" in proof.proof
    await_end(submitted)


@pytest.mark.hours
def test_a_supervisor_that_was_stopped_ends_with_its_jvm_all_the_same(submitted: StandaloneJob) -> None:
    submitted.submit()
    host = submitted.await_driver()

    host.supervisor_of(submitted.submission_id).send_signal(signal.SIGSTOP)
    host.jvm_of(submitted.submission_id).kill()

    await_end(submitted)
    assert submitted.await_exit().pids


@pytest.mark.hours
def test_a_jvm_that_is_asked_to_end_waits_for_its_supervisor(submitted: StandaloneJob) -> None:
    submitted.submit()
    host = submitted.await_driver()
    host.supervisor_of(submitted.submission_id).send_signal(signal.SIGSTOP)

    asked = time.monotonic()
    submitted.engine.terminate(submitted.handle)
    wait_until(
        lambda: not isinstance(submitted.observe(), RunningSubmission), timeout=PATIENCE, what="the end of the JVM"
    )

    assert time.monotonic() - asked >= TERMINATE_SECONDS, "its worker had to kill it"
    assert submitted.await_exit().pids
    await_end(submitted)


def test_a_frozen_worker_proves_nothing_and_ends_its_driver_when_it_thaws(submitted: StandaloneJob) -> None:
    submitted.submit()
    host = submitted.await_driver()

    worker = host.worker
    assert worker is not None
    worker.send_signal(signal.SIGSTOP)
    try:
        wait_until(
            lambda: isinstance(submitted.observe(), UnknownSubmission), timeout=PATIENCE, what="the loss of the worker"
        )
        seen = submitted.observe()
        alive = submitted.processes()
    finally:
        worker.send_signal(signal.SIGCONT)

    assert isinstance(seen, UnknownSubmission)
    assert "is ERROR: its worker was lost" in seen.reason
    assert alive
    await_end(submitted)
    assert submitted.await_exit().pids


@pytest.mark.hours
def test_a_killed_worker_proves_nothing_and_the_supervisor_does(submitted: StandaloneJob) -> None:
    submitted.submit()
    host = submitted.await_driver()

    assert host.worker is not None
    host.worker.kill()
    ended = submitted.await_exit()

    assert isinstance(submitted.observe(), UnknownSubmission)
    assert "received a stop signal" in ended.reason
    await_end(submitted)


def test_a_lost_host_proves_nothing(submitted: StandaloneJob) -> None:
    submitted.submit()
    host = submitted.await_driver()

    host.lose()

    wait_until(
        lambda: not isinstance(submitted.observe(), RunningSubmission), timeout=PATIENCE, what="the loss of the worker"
    )
    assert isinstance(submitted.observe(), UnknownSubmission)
    assert submitted.newest.exit is None
    assert not host.disk.exists()


def test_a_driver_outlives_its_master_and_is_known_to_the_next_one(submitted: StandaloneJob) -> None:
    submitted.submit()
    submitted.await_driver()
    active = submitted.cluster.active
    assert active is not None

    active.kill()
    between = submitted.observe()
    submitted.cluster.await_workers()

    assert isinstance(between, UnknownSubmission)
    assert submitted.observe() == RunningSubmission(submitted.handle, host=submitted.host.address)
    submitted.engine.terminate(submitted.handle)
    submitted.await_gone()


def test_a_cluster_without_a_master_launches_nothing_ends_nothing_and_loses_nothing(submitted: StandaloneJob) -> None:
    submitted.submit()
    submitted.await_driver()
    for master in submitted.cluster.masters:
        master.kill()

    with pytest.raises(EngineUnavailableError, match="no master of spark://"):
        submitted.engine.launch(submitted.ticket, None)
    with pytest.raises(EngineUnavailableError, match="could not be ended"):
        submitted.engine.terminate(submitted.handle)
    seen, alive = submitted.observe(), submitted.processes()
    for master in submitted.cluster.masters:
        master.start()
    submitted.cluster.await_workers()

    assert isinstance(seen, UnknownSubmission)
    assert alive
    assert submitted.observe() == RunningSubmission(submitted.handle, host=submitted.host.address)


def test_of_two_launches_of_one_submission_one_runs_and_the_other_reports_nothing(submitted: StandaloneJob) -> None:
    submitted.submit()
    submitted.await_driver()
    first = submitted.handle

    second = submitted.engine.launch(submitted.ticket, None)
    wait_until(
        lambda: isinstance(observe_one(submitted.engine, submitted.submission_id, second), GoneSubmission),
        timeout=PATIENCE,
        what="the end of the second driver",
    )

    assert submitted.handle == first
    assert submitted.observe() == RunningSubmission(first, host=submitted.host.address)
    assert submitted.newest.exit is None


def test_a_launch_without_an_answer_is_found_by_our_own_id_and_not_repeated(submitted: StandaloneJob) -> None:
    engine = LosesTheAnswer(submitted.job.config)
    submitted.job = replace(submitted.job, engines=Engines({StandaloneEngine.name: engine}))

    submitted.submit()
    assert submitted.newest.started is None
    attempt = ensure_submitted(submitted.job, 1, by="another process")
    submitted.await_driver()

    assert (attempt, engine.launched) == (1, 1)
    assert submitted.observe() == RunningSubmission(submitted.handle, host=submitted.host.address)


@pytest.mark.hours
@pytest.mark.parametrize("play", [masters_away, lost_without_masters])
def test_masters_that_are_away_for_a_minute_cost_no_driver_and_no_attempt(
    play: Callable[[StandaloneJob, float], Outcome], submitted: StandaloneJob
) -> None:
    """Ten minutes of it: ``make proof SUITE=engines``."""
    outcome = play(submitted, 60.0)

    assert (outcome.wrong, outcome.answer) == ([], "RUNNING")


def test_a_worker_that_gives_up_its_masters_ends_its_driver_and_costs_no_attempt(submitted: StandaloneJob) -> None:
    outcome = worker_gives_up(submitted)

    assert (outcome.wrong, outcome.answer) == ([], "RUNNING")


@pytest.mark.hours
def test_the_masters_say_which_release_of_spark_the_drivers_have(submitted: StandaloneJob) -> None:
    target = submitted.cluster.target(submitted.job.config)

    assert release_of(spark_home()) in {each.spark for each in submitted.engine.probe(target)}


def test_a_driver_without_room_waits_and_is_never_overdue(submitted: StandaloneJob) -> None:
    submitted.submit(driver_memory="900g")

    waiting = submitted.observe()
    submitted.engine.terminate(submitted.handle)
    proof = submitted.await_gone()

    assert isinstance(waiting, PendingSubmission)
    assert "is KILLED" in proof.proof


@pytest.mark.hours
def test_a_lost_driver_is_started_again_on_the_same_host(submitted: StandaloneJob) -> None:
    options = OPTIONS.model_copy(update={"restart_in_place": True})
    submitted.submit(options=options)
    host = submitted.await_driver()
    first = submitted.handle

    psutil_jvm(host, submitted).kill()
    submitted.await_exit(attempt=1)
    wait_until(lambda: submitted.newest.submission.attempt == 2, timeout=PATIENCE, what="the next attempt")
    submitted.await_driver()

    assert submitted.handle.ref == first.ref
    assert submitted.handle.log_uri == first.log_uri.replace("attempt-1", "attempt-2")
    assert submitted.observe() == RunningSubmission(submitted.handle, host=submitted.host.address)


def psutil_jvm(host: TestHost, submitted: StandaloneJob) -> psutil.Process:
    """Return what plays the driver's own JVM: the child of the supervisor."""
    return host.supervisor_of(submitted.submission_id).children()[0]


def test_neither_the_master_nor_a_command_line_nor_the_script_shows_a_secret(submitted: StandaloneJob) -> None:
    submitted.submit()
    host = submitted.await_driver()

    master = submitted.cluster.active
    assert master is not None
    lines = [" ".join(each.cmdline()) for each in submitted.processes()]
    driver = psutil_jvm(host, submitted).environ()
    shown = [json.dumps(master.seen), submitted.handle.model_dump_json(), *lines]
    request = psutil_environment(host.jvm_of(submitted.submission_id))

    assert not [text for text in (*shown, request) if any(each in text for each in SECRETS)]
    assert not [name for name in driver if name in ("SPARK_HA_TICKET", "SPARK_HA_CONFIG_FILE", "SPARK_HA_HANDLE")]
    assert "PYSPARK_GATEWAY_SECRET" not in driver


SECRETS = ("conf-secret", "argument-secret", "env-secret")


def psutil_environment(process: psutil.Process) -> str:
    """Return the environment of the JVM, which is what the request to the master has set."""
    return json.dumps(process.environ())


@pytest.mark.hours
def test_the_processes_of_a_submission_are_on_a_host_of_its_own(submitted: StandaloneJob) -> None:
    submitted.submit()
    host = submitted.await_driver()

    namespaces = {Path(f"/proc/{each.pid}/ns/pid").readlink() for each in submitted.processes()}

    assert len(namespaces) == 1
    assert Path("/proc/self/ns/pid").readlink() not in namespaces
    assert submitted.handle.log_host == host.name
