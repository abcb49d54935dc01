"""A real driver with OpenLineage's listener in its JVM: its own events name the task that submitted it as their parent.

The listener's newest release names Spark 3 and 4.0 as supported: what is asked here is whether a newer one gets as far
as the parent.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.testing.waiting import wait_until
from tests.integration import test_client as words
from tests.support.ivy import Wanted, jars
from tests.support.lineage_receiver import LineageReceiver, receiving
from tests.support.specs import changed


pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.timeout(600)]
LISTENER = "1.53.0"


@pytest.fixture
def receiver() -> Iterator[LineageReceiver]:
    with receiving() as started:
        yield started


def listener_jar() -> str:
    """Return the path of the listener's jar, which has all that it needs."""
    wanted = Wanted("io.openlineage", "openlineage-spark_2.13", LISTENER, transitive=False)
    [jar] = jars(f"openlineage-spark-{LISTENER}", (wanted,))
    return str(jar)


def test_events_of_a_driver_name_the_task_that_submitted_it(
    client: HaClient, receiver: LineageReceiver, tmp_path: Path
) -> None:
    parent, root = str(uuid.uuid4()), str(uuid.uuid4())
    lineage = {
        "spark.openlineage.parentJobNamespace": "tests",
        "spark.openlineage.parentJobName": "dag.task",
        "spark.openlineage.parentRunId": parent,
        "spark.openlineage.rootParentJobNamespace": "tests",
        "spark.openlineage.rootParentJobName": "dag",
        "spark.openlineage.rootParentRunId": root,
        **{f"spark.openlineage.transport.{key}": value for key, value in receiver.transport.items()},
    }
    asked = words.request(tmp_path, "first")
    words.feed(tmp_path, "one")
    request = changed(
        asked,
        conf={**asked.conf, "spark.extraListeners": "io.openlineage.spark.agent.OpenLineageSparkListener"},
        jars=[listener_jar()],
        lineage=lineage,
    )

    client.job("words").submit(request)

    words.wait_for_epoch(client.job("words"), 1)
    wait_until(lambda: words.rows(tmp_path) == ["one"], timeout=240, what="the row", interval=0.2)
    wait_until(lambda: receiver.events, timeout=60, what="an event of the driver")
    told = receiver.events[0]["run"]["facets"]["parent"]
    assert told["run"]["runId"] == parent
    assert (told["job"]["namespace"], told["job"]["name"]) == ("tests", "dag.task")
    assert told["root"]["run"]["runId"] == root
