"""What a new leader of a cluster reads before it knows which of 1,000 persisted jobs it has to recover.

Each job has a graph, a run with one submission and a leader that is lost. A survey says which jobs are worth a look,
and a look reads one of them as a whole, with its graph. The baseline reads with kazoo alone what no
decision can do without: result, graph pointer and leader node of every job, pipelined. Requests are what the server
says that it received; a round trip is a wait for answers, and carries as many requests as were known before it.
"""

from __future__ import annotations

import itertools
import re
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient  # noqa: TID253  # fills ZooKeeper, and is the baseline

from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.embedded import EmbeddedZooKeeper, ask
from airflow_provider_ha.coordination.paths import ClusterPaths, JobPaths
from airflow_provider_ha.fleet.observations import look
from airflow_provider_ha.jobs.condition import Action, decide
from airflow_provider_ha.jobs.job_graph import Artifact, Blob, GraphPointer, JobGraph
from airflow_provider_ha.jobs.observe import survey
from airflow_provider_ha.storage.blobs import put_blob
from airflow_provider_ha.storage.object_store import ObjectStore
from airflow_provider_ha.storage.open_storage import open_store
from benchmarks.shared import repeat, show
from tests.support.clusters.jobs_helpers import a_run, a_start, a_submission


WORKERS = 8  # as many as a leader of the cluster uses


def fill(client: KazooClient, store: ObjectStore, cluster: ClusterPaths, count: int) -> None:
    """Persist *count* jobs whose drivers are lost; pipelined, node by node."""
    sha256, size = put_blob(store, b"print('the application')")
    application = Artifact(name="app.py", blob=Blob(sha256=sha256, size=size))
    client.ensure_path(cluster.base)
    pending = []
    for number in range(count):
        paths = cluster.job(f"job-{number:04d}")
        graph = put_blob(store, JobGraph(job_id=paths.job_id, name="job", application=application).to_bytes())
        nodes = nodes_of(paths, Blob(sha256=graph[0], size=graph[1]))
        pending += [client.create_async(path, data) for path, data in nodes]
        pending.append(client.set_async(paths.epoch, b"the leader that is lost"))
    for result in pending:
        result.get()


def nodes_of(paths: JobPaths, graph: Blob) -> list[tuple[str, bytes]]:
    """Return the nodes of one job, parents first."""
    return [
        (paths.base, b""),
        *((path, b"") for path in paths.skeleton),
        (paths.epoch, b""),
        (paths.heartbeat, b""),
        (paths.run(1), a_run().model_copy(update={"graph": graph}).to_bytes()),
        (paths.submissions(1), b""),
        (paths.submission(1, 1), a_submission().to_bytes()),
        (paths.submission_started(1, 1), a_start().to_bytes()),
        (paths.job_graph, GraphPointer(graph=graph, run=1, attempt=1).to_bytes()),
    ]


def measure_once(quick: bool) -> None:
    """Measure and print."""
    count = 50 if quick else 1000
    with tempfile.TemporaryDirectory() as folder, EmbeddedZooKeeper(Path(folder) / "zk") as server:
        config = HaConfig.build(zookeeper=server.hosts, storage_root=f"file://{folder}/storage")
        cluster, store = ClusterPaths(config.root, config.cluster_id), open_store(config)
        raw = KazooClient(server.hosts)
        raw.start()
        fill(raw, store, cluster, count)
        coordinator = Counting(KazooCoordinator.connect(config))
        jobs = [f"job-{number:04d}" for number in range(count)]

        def baseline() -> None:
            paths = [cluster.job(job_id) for job_id in jobs]
            asked = [raw.get_async(path.job_graph) for path in paths]
            asked += [raw.exists_async(node) for path in paths for node in (path.run_result(1), path.leader)]
            for answer in asked:
                answer.get()

        def surveyed() -> None:
            session: Any = coordinator
            if any(not each.is_lost for each in survey(session, cluster, jobs)):
                raise RuntimeError("a job is not seen as lost")

        def one(job_id: str) -> Action:
            session: Any = coordinator
            seen = look(session, store, cluster, job_id)
            return decide(seen.status, seen.options, SystemClock().now()).action

        def one_by_one() -> None:
            check([one(job_id) for job_id in jobs])

        def by_workers() -> None:
            with ThreadPoolExecutor(WORKERS) as pool:
                check(list(pool.map(one, jobs)))

        measured = {
            "kazoo alone: 3 reads each, all at once": measure(server, baseline),
            "ours, a survey: which are worth a look": measure(server, surveyed, coordinator),
            "ours, a look at one job after the other": measure(server, one_by_one, coordinator),
            f"ours, a look at {WORKERS} jobs at a time": measure(server, by_workers, coordinator),
        }
        coordinator.inner.close()
        raw.stop()
        raw.close()
    floor = next(iter(measured.values())).seconds
    show(
        f"recovery view of {count} persisted jobs, graphs included",
        ("", "seconds", "ms per job", "requests per job", "round trips per job", "ratio"),
        [
            (
                name,
                f"{each.seconds:.2f}",
                f"{each.seconds / count * 1e3:.2f}",
                f"{each.requests / count:.2g}",
                f"{each.round_trips / count:.1f}" if each.round_trips else "1 for all",
                f"{each.seconds / floor:.1f}",
            )
            for name, each in measured.items()
        ],
    )


class Counting:
    """A session that counts how often a caller waits for its answers.

    :param inner: The session.
    """

    def __init__(self, inner: KazooCoordinator) -> None:
        self.inner = inner
        self.waits = itertools.count()

    def __getattr__(self, name: str) -> Any:
        """Count the reads, of one node or of many."""
        if name in ("get", "find", "children", "read"):
            next(self.waits)
        return getattr(self.inner, name)


@dataclass(frozen=True)
class Measured:
    """What some work took.

    :param seconds: How long it took.
    :param requests: How many requests the server received.
    :param round_trips: How often a caller waited for answers; 0 where that was not counted.
    """

    seconds: float
    requests: int
    round_trips: int


def measure(server: EmbeddedZooKeeper, work: Callable[[], None], counting: Counting | None = None) -> Measured:
    """Measure *work*."""
    waits = next(counting.waits) + 1 if counting else 0
    before, begin = received(server), time.perf_counter()
    work()
    seconds, requests = time.perf_counter() - begin, received(server) - before
    return Measured(seconds, requests, next(counting.waits) - waits if counting else 0)


def received(server: EmbeddedZooKeeper) -> int:
    """Return how many requests the server has received so far."""
    answer = ask(int(server.hosts.rpartition(":")[2]), b"srvr")
    found = re.search(rb"^Received: (\d+)", answer, re.MULTILINE)
    return int(found.group(1)) if found else 0


def check(actions: list[Action]) -> None:
    """Assert that every job would be recovered: else something else was measured.

    :raises RuntimeError: One would not.
    """
    others = {action.value for action in actions} - {Action.RECOVER.value}
    if others:
        raise RuntimeError(f"some jobs would not be recovered but: {sorted(others)}")


if __name__ == "__main__":
    repeat(__doc__, measure_once)
