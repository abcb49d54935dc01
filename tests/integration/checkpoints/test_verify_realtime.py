"""Real-time mode, against a real Kafka: its logs are read as they stand, and Spark does what the verdict says.

A batch of it lasts for minutes, and its plan is written only when it ends, just before its commit.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.spark.checkpoint_layout import batches
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.verify.verification import verify
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.spark.kafka_server import Kafka, connector_jars


pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]
ROOT = Path(__file__).resolve().parents[3]
APP = ROOT / "tests" / "apps" / "kafka_realtime.py"
SPARK = "4.2.0"
ROWS = 20
# A query that keeps no state looks like one that lost all of it; that is said, and is no alarm.
ORDINARY = {"STATE_UNKNOWN"}


class Rows:
    """A topic with rows and one to write to."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self.topic, self.target = kafka.new_topic(), kafka.new_topic()
        kafka.add(self.topic, ROWS)

    def command(self, ended: int, *checkpoints: Path) -> list[str]:
        """Return the command that reads it until *ended* batches came to their end."""
        place = [self._kafka.servers, self.topic, self.target, connector_jars(), str(ended)]
        return [sys.executable, str(APP), *place, *map(str, checkpoints)]

    def read(self, *checkpoints: Path) -> list[dict[str, Any]]:
        """Go on with each checkpoint for two batches; returns what came of each."""
        done = subprocess.run(
            self.command(2, *checkpoints),
            check=True,
            capture_output=True,
            text=True,
            timeout=600,
            env=os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"},
        )
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.fixture(scope="module")
def rows(kafka: Kafka) -> Rows:
    return Rows(kafka)


@pytest.fixture(scope="module")
def killed(rows: Rows, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """The checkpoint of a query that was killed after three batches, and every finding of the looks before that."""
    place = tmp_path_factory.mktemp("realtime")
    checkpoint = place / "plain"
    with (place / "log").open("wb") as log:
        environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"}
        command = rows.command(0, checkpoint)
        query = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
    seen: list[str] = []
    try:
        wait_until((checkpoint / "commits" / "0").exists, timeout=180, what="a first batch")
        while len(batches(LocalTree(checkpoint), "commits")) < 3:
            assert query.poll() is None, (place / "log").read_text()[-4000:]
            report = verify(LocalTree(checkpoint), spark_version=SPARK)
            seen += [str(finding) for finding in report.findings if finding.code.value not in ORDINARY]
            seen += [] if report.startable else [f"not startable: {report.findings}"]
    finally:
        os.killpg(query.pid, signal.SIGKILL)  # with the JVM, which would go on for a moment
        query.wait()
    return checkpoint, seen


@pytest.mark.hours
def test_no_look_at_a_running_real_time_query_finds_damage(killed: tuple[Path, list[str]]) -> None:
    checkpoint, seen = killed

    assert seen == []
    assert verify(LocalTree(checkpoint), spark_version=SPARK).startable is True
    assert verify(LocalTree(checkpoint), spark_version=SPARK).restorable == batches(LocalTree(checkpoint), "commits")


def untouched(_: Path) -> None:
    """Kill and nothing else."""


def commit_removed(checkpoint: Path) -> None:
    """The newest batch is planned and not committed: killed between the two."""
    _remove(checkpoint, "commits", batches(LocalTree(checkpoint), "commits")[-1])


def plan_removed(checkpoint: Path) -> None:
    """The newest batch is committed, and its offsets are gone."""
    _remove(checkpoint, "offsets", batches(LocalTree(checkpoint), "offsets")[-1])


def plan_before_it_removed(checkpoint: Path) -> None:
    """The batch before the newest one has no offsets any more."""
    _remove(checkpoint, "offsets", batches(LocalTree(checkpoint), "offsets")[-2])


def plan_torn(checkpoint: Path) -> None:
    """The offsets of the newest batch break off."""
    newest = checkpoint / "offsets" / str(batches(LocalTree(checkpoint), "offsets")[-1])
    (newest.parent / f".{newest.name}.crc").unlink(missing_ok=True)
    newest.write_bytes(newest.read_bytes()[:-9])


def query_id_removed(checkpoint: Path) -> None:
    """The id of the query is unknown."""
    for name in ("metadata", ".metadata.crc"):
        (checkpoint / name).unlink()


DAMAGES = (untouched, commit_removed, plan_removed, plan_before_it_removed, plan_torn, query_id_removed)


def _remove(checkpoint: Path, log: str, batch: int) -> None:
    for name in (str(batch), f".{batch}.crc"):
        (checkpoint / log / name).unlink(missing_ok=True)  # the kill may have come before the hidden one


@pytest.mark.hours
def test_spark_continues_in_real_time_mode_exactly_as_the_verdict_predicts(
    rows: Rows, killed: tuple[Path, list[str]], tmp_path: Path
) -> None:
    copies = [damaged(killed[0], damage, tmp_path) for damage in DAMAGES]
    verdicts = [verify(LocalTree(copy), spark_version=SPARK).startable for copy in copies]
    before = [newest_end(copy, rows.topic) for copy in copies]
    query_id = json.loads((killed[0] / "metadata").read_text())["id"]

    told = rows.read(*copies)

    outcomes = [
        each["error"] is None and each["id"] == query_id and each["read"][0][0] == end
        for each, end in zip(told, before, strict=True)
    ]
    assert dict(zip(DAMAGES, verdicts, strict=True)) == dict(zip(DAMAGES, outcomes, strict=True)), told
    assert verdicts[:3] == [True, True, False]


@pytest.mark.hours
def test_a_first_batch_that_did_not_end_leaves_state_that_spark_refuses_as_the_verdict_says(
    rows: Rows, tmp_path: Path
) -> None:
    checkpoint, log = tmp_path / "state", tmp_path / "log"
    with log.open("wb") as output:
        environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"}
        query = subprocess.Popen(rows.command(0, checkpoint), stdout=output, stderr=output, env=environment)
    schema = checkpoint / "state/0/_metadata/metadata"
    wait_until(lambda: schema.exists() or query.poll() is not None, timeout=180, what="the state of a first batch")
    query.kill()
    query.wait()
    assert not batches(LocalTree(checkpoint), "offsets"), "the first batch was over before it was killed"

    report = verify(LocalTree(checkpoint), spark_version=SPARK)
    (told,) = rows.read(checkpoint)

    assert (report.startable, [finding.code.value for finding in report.findings]) == (False, ["OFFSETS_MISSING"])
    assert "should be empty on batch 0" in told["error"]


def damaged(checkpoint: Path, damage: Callable[[Path], None], scratch: Path) -> Path:
    """Return a damaged copy."""
    copy = Path(shutil.copytree(checkpoint, scratch / damage.__name__))
    damage(copy)
    return copy


def newest_end(checkpoint: Path, topic: str) -> int | None:
    """Return the offset that the newest committed batch ended with; ``None`` where its plan cannot be read."""
    plan = checkpoint / "offsets" / str(batches(LocalTree(checkpoint), "commits")[-1])
    try:
        return int(json.loads(plan.read_text().splitlines()[2])[topic]["0"])
    except (OSError, ValueError, IndexError):
        return None
