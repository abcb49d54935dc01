"""``make proof SUITE=scripts``: third-party scripts, unmodified, under a driver and with ``spark-submit``."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.embedded import EmbeddedZooKeeper
from lab import sitting
from lab.scripts.cases import CASES, SPARK, Case
from lab.scripts.play import Outcome, play
from lab.sitting import Sitting, commits, emptied
from lab.suite import Proof
from tests.support.clusters import submit_helpers
from tests.support.spark.kafka_server import Kafka, broker, connector_jars
from tests.support.spark.lines_server import words


SITTING_SECONDS = 3300.0  # no script is begun later: a sitting takes an hour at most
_LINES = 4  # differences that the table shows of a script
_COLUMNS = ("script", "spark-submit", "its run under a driver", "printed lines and loggers that differ", "why")

Done = sitting.Done[Outcome]
Progress = sitting.Progress[Outcome]


class Scripts:
    """The suite.

    :param cases: Which scripts are run.
    :param sitting: Seconds after which no script is begun.
    """

    name = "scripts"
    title = "Third-party scripts under a driver, and with spark-submit"

    def __init__(self, cases: Sequence[Case] = CASES, sitting: float = SITTING_SECONDS) -> None:
        self._cases, self._sitting = cases, sitting

    @property
    def about(self) -> str:
        """What is done and what has to hold."""
        return (
            "Each script runs unmodified, with `spark-submit` and as a job that is stopped when it has shown its rows."
            " Compared are the lines that it prints (numbers count as any number), the loggers that write warnings, the"
            " variables of its environment, and how it ends. Both print the same, and the run is FINISHED; or a"
            " difference is intended, and has its reason."
        )

    def run(self, folder: Path, tell: Callable[[str], None]) -> Proof:
        """Run the scripts that are left, and again those in which something did not hold."""
        now, given = Sitting(folder, Progress, Done, self._sitting, tell), folder / "given"
        place, by_name = emptied(folder / "stage"), {case.name: case for case in self._cases}
        with EmbeddedZooKeeper(place / "zookeeper") as zookeeper:
            there = {name: case for name, case in by_name.items() if case.file(given).is_file()}
            now.attempt_all({name: partial(_play, case, given, place, zookeeper.hosts) for name, case in there.items()})
        return now.proof(list(by_name), _COLUMNS, lambda name, done: row(by_name[name], done), remark)


def _play(case: Case, given: Path, stage: Path, zookeeper: str) -> Outcome:
    place = stage / new_id()[:8]
    place.mkdir()
    config = HaConfig.build(
        zookeeper=zookeeper, storage_root=f"file://{place}/storage", cluster_id=f"c-{new_id()[:12]}"
    )
    with ExitStack() as stack:
        facts, conf = {"port": str(stack.enter_context(words()))}, dict[str, str]()
        if "{servers}" in case.arguments:
            kafka = stack.enter_context(broker())
            facts |= {"servers": kafka.servers, "topic": kafka.new_topic()}
            stack.enter_context(_fed(kafka, facts["topic"]))
            conf = {"spark.jars": connector_jars()}
        client = stack.enter_context(HaClient.open(config))
        try:
            said = [str(case.file(given)), *(word.format(**facts) for word in case.arguments)]
            return play(case, said, conf, client, place)
        finally:
            for job_id in client.list_jobs():
                submit_helpers.kill_all(client.context(job_id))


@contextmanager
def _fed(kafka: Kafka, topic: str) -> Iterator[None]:
    """Write rows into a topic every second: a script that names no offsets begins with those that come later."""
    over = threading.Event()

    def feed() -> None:
        while not over.wait(1):
            kafka.add(topic, 5)

    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        yield
    finally:
        over.set()
        feeder.join()


def row(case: Case, done: Done) -> tuple[str, ...]:
    """Return the line of a script. Pure."""
    seen = done.outcome
    origin = "Spark" if case.origin == SPARK else case.origin
    lines, more = seen.differences[:_LINES], len(seen.differences) - _LINES
    differs = "; ".join(f"`{line}`" for line in lines).replace("|", "\\|") or "none"
    differs += f"; {more} more" if more > 0 else ""
    managed = re.sub(r"/\S*/stage/\w+/", "/…/", seen.managed).replace("|", "\\|")
    return (f"{origin}: `{case.path}`", seen.plain, managed, "-" if case.refused else differs, case.why or "-")


def remark(cells: Mapping[str, Done], left: Sequence[str]) -> str:
    """Return what a reader has to know beside the table. Pure.

    :param left: What has not been run.
    """
    found = {name for done in cells.values() for name in done.outcome.variables}
    more, fewer = (sorted(f"`{name[1:]}`" for name in found if name[0] == sign) for sign in "+-")
    return (
        f"Commit {commits(cells)}. PySpark {version('pyspark')}. Variables that only a driver has: "
        f"{', '.join(more) or 'none'}. Variables that only `spark-submit` has are {len(fewer)} of the shell that calls"
        " it. Code of the public repositories is no part of this one: such a script runs in the directory of its file "
        "below"
        " `build/proofs/scripts/given/OWNER/REPOSITORY`." + (f" **Not run yet:** {', '.join(left)}." if left else "")
    )
