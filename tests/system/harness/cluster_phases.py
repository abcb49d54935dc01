"""The steps of the demo on a standalone cluster that the demo on one host does not have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from urllib.parse import urlsplit

from tests.system.harness import phases, steps
from tests.system.harness.cluster_faults import (
    await_executors,
    lose_driver,
    lose_executor,
    lose_host,
    lose_master,
)
from tests.system.harness.cluster_servers import BUCKET, HOSTS, SPARK_CONN_ID, ClusterServers
from tests.system.harness.feeder import Feeder
from tests.system.harness.losses import Loss
from tests.system.harness.observer import JobObserver
from tests.system.harness.outputs import Output, S3Output
from tests.system.harness.phases import COPY
from tests.system.harness.report import Phase, Report
from tests.system.harness.scenario import Story
from tests.system.harness.stage import MAIN_JOB, Stage
from tests.system.harness.state import compare_state
from tests.system.harness.steps import MANY_FILES, PATIENCE


# Days fed at the end of each phase.
_EXECUTOR, _DRIVER, _MASTER, _HOST = 165, 210, 250, 295


class ClusterStage(Stage):
    """Where it happens: drivers and executors on the cluster, checkpoints and files in the bucket."""

    servers: ClusterServers

    def __init__(
        self, servers: ClusterServers, feeder: Feeder, report: Report, say: Callable[[str], None], data: Path
    ) -> None:
        super().__init__(servers, feeder, report, say, data)

    @property
    def spark_conn_id(self) -> str:
        """Connection of the cluster that runs the drivers."""
        return SPARK_CONN_ID

    def output_path(self, job_id: str) -> str:
        """Output of the hourly statistics of a job, as its script names it."""
        return f"s3a://{BUCKET}/output/{job_id}/hourly"

    def output(self, job_id: str) -> Output:
        """Return the hourly statistics of a job."""
        return S3Output(self.servers.client, self.output_path(job_id))

    def take_out(self, savepoint: str) -> Path:
        """Copy a savepoint to a directory of this host, as any client of S3 would; returns it.

        :param savepoint: Its URI.
        """
        parts, target = urlsplit(savepoint), self.servers.home / "taken-out"
        prefix, client = f"{parts.path.strip('/')}/", self.servers.client
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=parts.netloc, Prefix=prefix)
        for key in [entry["Key"] for page in pages for entry in page.get("Contents", ())]:
            place = target / key.removeprefix(prefix)
            place.parent.mkdir(parents=True, exist_ok=True)
            client.download_file(parts.netloc, key, str(place))
        return target


def submit(stage: ClusterStage, phase: Phase) -> None:
    """Submit the job; its driver and its executors run on the hosts of the cluster."""
    phases.submit(stage, phase)
    await_executors(stage.servers.cluster, HOSTS)
    leader = stage.job().snapshot().leader
    hosts = [host.name for host in stage.servers.cluster.hosts for _ in host.executors()]
    phase.found += f"; driver on {leader.host if leader else '?'}, executors on {' and '.join(hosts)}"


def kill_executor(stage: ClusterStage, phase: Phase) -> None:
    """Kill an executor."""
    _lose(stage, phase, _EXECUTOR, lose_executor)


def kill_driver(stage: ClusterStage, phase: Phase) -> None:
    """Kill the driver's JVM."""
    _lose(stage, phase, _DRIVER, lose_driver)


def kill_master(stage: ClusterStage, phase: Phase) -> None:
    """Kill the active master."""
    _lose(stage, phase, _MASTER, lose_master)


def lose_a_host(stage: ClusterStage, phase: Phase) -> None:
    """Lose the driver's host, with all its processes and its disk."""
    _lose(stage, phase, _HOST, lose_host)


def suspend(stage: ClusterStage, phase: Phase) -> None:
    """Stop with a checkpoint and a savepoint; plain Spark reads the state in it."""
    steps.feed(stage, phases.SUSPENDED)
    result = steps.stop(stage, MAIN_JOB, "suspend", savepoint=True)
    days = stage.job().files_read()
    truths = {query: stage.truth(read) for query, read in days.items()}
    checkpoints = stage.take_out(str(result["path"]))
    found = compare_state(stage.data / "flights.csv", truths, checkpoints, stage.servers.home)
    stage.report.comparisons.extend(found)
    said = "; ".join(f"{each.name} has {each.found:,} rows, {each.verdict}" for each in found)
    phase.found = f"FINISHED with checkpoint {result['checkpoint']}; plain Spark reads its savepoint: {said}"
    phase.facts = {"result": result, "days": days}


def restore(stage: ClusterStage, phase: Phase) -> None:
    """Restore the job from the checkpoint of its stop, and the savepoint as another job."""
    arguments = steps.arguments(stage, MAIN_JOB, max_files=MANY_FILES)
    stage.main_run = stage.start_dag("disaster_recovery", {"source_job": MAIN_JOB, "arguments": arguments})
    steps.copy_table(stage, COPY)
    copy = stage.start_dag(
        "disaster_recovery",
        {
            "source_job": MAIN_JOB,
            "job_id": COPY,
            "start_from": f"savepoint-{stage.savepoint}",
            "arguments": steps.arguments(stage, COPY, max_files=MANY_FILES),
            "accept_verdicts": ["SAFE", "LOSS_POSSIBLE"],  # it has its own table: only this stage knows it
        },
    )
    plans = {}
    for run in (stage.main_run, copy):
        stage.servers.api.wait_for_task(run, "wait_for_checkpoint", "success", timeout=PATIENCE)
        plans[run.run_id] = stage.servers.api.xcom(run, "plan")
    said = [f"{plan['source']}, verdict {plan['verdict']}" for plan in plans.values()]
    phase.found = f"{MAIN_JOB} runs from {said[0]}; {COPY} from {said[1]}"
    phase.facts = plans


def _lose(stage: ClusterStage, phase: Phase, until: int, lose: Callable[[JobObserver, ClusterServers], Loss]) -> None:
    steps.feed(stage, until)
    loss = lose(stage.job(), stage.servers)
    stage.report.losses.append(loss)
    gone = f"{len(loss.gone)} process{'es' if len(loss.gone) > 1 else ''} gone"
    phase.found = (
        f"{loss.victim}: {gone}, in the middle of a batch of {', '.join(loss.in_flight)}; "
        f"epoch {loss.epochs[0]} -> {loss.epochs[1]}, next commit after {loss.seconds:.1f} s"
    )
    phase.facts = asdict(loss)


ON_A_CLUSTER = Story(
    phases=(
        ("Airflow, ZooKeeper, S3 and the cluster start", phases.wait_for_servers),
        ("submit (flight_delays)", submit),
        ("savepoint while it runs (scheduled_savepoint)", phases.savepoint),
        ("kill -9 of an executor", kill_executor),
        ("kill -9 of the driver's JVM", kill_driver),
        ("kill -9 of the active master", kill_master),
        ("the driver's host is lost with its disk", lose_a_host),
        ("stop with a checkpoint and a savepoint (stop_job)", suspend),
        ("go on, and the savepoint as another job (disaster_recovery)", restore),
        ("terminate, every open window is emitted (stop_job)", phases.terminate),
        ("go on after the end (disaster_recovery)", phases.go_on),
        ("compare with the truth", phases.compare),
    ),
    stage=ClusterStage,
)
