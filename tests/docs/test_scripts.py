"""Pages that are scripts: each works with a real Spark."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.driver import context
from tests.docs.blocks import blocks_of
from tests.support.checkpoints.portable_helpers import checkpoint
from tests.support.clusters import submit_helpers as helpers
from tests.support.clusters.standalone_cluster import NAMESPACES, can_make_hosts
from tests.support.s3 import versitygw
from tests.support.s3.s3a_jars import s3a_jars
from tests.support.spark import recorded_job
from tests.support.spark.spark_with import spark_with


SHELL_PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "from-a-shell.md"
ZOOKEEPER = "127.0.0.1:2191"  # of the page


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_the_commands_work_in_order(config: HaConfig, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "orders.txt").write_text("one\ntwo\n")
    lines = []
    for block in blocks_of(SHELL_PAGE):
        if block.title:
            (tmp_path / block.title).write_text(block.text)
        elif block.language == "bash":
            lines.append(block.text.replace(ZOOKEEPER, config.zookeeper))
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("AIRFLOW", "SPARK_HA"))}
    environment |= {
        "PATH": f"{Path(sys.executable).parent}:{environment['PATH']}",
        "SPARK_HA_CLUSTER_ID": config.cluster_id,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    place = HaConfig.build(
        zookeeper=config.zookeeper, storage_root=f"file://{tmp_path / 'ha'}", cluster_id=config.cluster_id
    )

    with HaClient.open(place) as client:
        try:
            done = subprocess.run(
                ["bash", "-c", "\n".join(["set -euo pipefail", *lines])],
                cwd=tmp_path,
                env=environment,
                check=False,
                capture_output=True,
                text=True,
            )

            assert done.returncode == 0, done.stdout + done.stderr
            assert "state            planned" in done.stdout
            assert client.list_jobs() == []
        finally:
            helpers.kill_all(client.context("orders"))


SAVEPOINT_PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "savepoints-without-airflow.md"


@pytest.mark.long
@pytest.mark.hours
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_the_commands_work_in_order_and_spark_starts_from_the_result(tmp_path: Path) -> None:
    recorded_job.copy_live(tmp_path / "checkpoints")
    recorded_job.copy_output(tmp_path / "out")
    checkpoint(tmp_path / "checkpoints" / "daily")
    lines = [
        line
        for block in blocks_of(SAVEPOINT_PAGE)
        if block.language == "bash"
        for line in block.text.splitlines()
        if not line.startswith("pip install") and " orders" not in line  # a managed job: tested with the command
    ]
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("AIRFLOW", "SPARK_HA"))}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"

    done = subprocess.run(
        ["bash", "-c", "\n".join(["set -euo pipefail", *lines])],
        cwd=tmp_path,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )

    assert len(lines) >= 7
    assert done.returncode == 0, done.stdout + done.stderr
    restored = {"checkpoint": tmp_path / "restored" / recorded_job.QUERY, "out": tmp_path / "out"}
    recorded_job.continue_query([restored], tmp_path)
    recorded_job.assert_exact(tmp_path / "out", recorded_job.FILES + recorded_job.MORE)


STANDALONE_PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "standalone-from-nothing.md"

# The output is read before the S3 server ends with the script.
READ = """
python - <<'END'
import boto3, json
from pathlib import Path
from tests.system.harness.compare import named_files
from tests.system.harness.outputs import S3Output
output = S3Output(boto3.client("s3", region_name="us-east-1"), "s3a://streams/output/orders")
rows = [json.loads(line) for uri in named_files(output.log()) for line in output.text(uri).splitlines()]
Path("values.json").write_text(json.dumps([row["value"] for row in rows]))
END
"""


@pytest.mark.long
@pytest.mark.hours
@pytest.mark.spark
@pytest.mark.airflow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(not can_make_hosts(), reason="this host does not let a test make namespaces")
def test_the_commands_work_in_order_and_the_output_is_exact(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "versitygw").symlink_to(versitygw.binary())
    script = ["set -euo pipefail", "ip link set lo up"]  # its ports are those of a network that only it has
    for block in blocks_of(STANDALONE_PAGE):
        if block.title:
            target = tmp_path / block.title
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.text, encoding="utf-8")
        elif block.language == "bash" and not block.text.startswith("make "):
            script.append(block.text)
    root = Path(__file__).parents[2]
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(("AIRFLOW", "SPARK", "PYSPARK", "AWS"))
    }
    environment |= {
        "PATH": f"{programs}:{Path(sys.executable).parent}:{environment['PATH']}",
        "PYTHONPATH": str(root),
        "SPARK_HOME": str(spark_with(s3a_jars(), tmp_path / "spark")),
    }
    log = tmp_path / "page.log"

    # All of it ends with the first process of its namespace, which is the script.
    with log.open("wb") as output:
        code = subprocess.run(
            [*NAMESPACES, "--net", "bash", "-c", "\n".join([*script, READ])],
            cwd=tmp_path,
            env=environment,
            stdout=output,
            stderr=output,
            check=False,
        ).returncode

    text = log.read_text(encoding="utf-8")
    assert code == 0, text[-4000:]
    values = sorted(json.loads((tmp_path / "values.json").read_text()))
    assert len(values) > 0
    assert values == list(range(len(values)))


PLAN_PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "restore-plan.md"
Function = Callable[[Any, int], None]


def function(name: str) -> Function:
    """Execute the block that defines *name*, and return what the page gives to ``foreachBatch``."""
    (block,) = (block for block in blocks_of(PLAN_PAGE) if f"def {name}(" in block.text)
    names: dict[str, Any] = {}
    exec(compile(block.text, f"{PLAN_PAGE}:{block.line}", "exec"), names)  # noqa: S102  # it is the page's code
    made: Function = names["function"]
    return made


@pytest.fixture
def past() -> Iterator[dict[str, str]]:
    """The ids of the queries of this driver, which has a lease."""
    ids = {"orders": "first-id"}
    context.install(context.DriverContext("orders", 1, 1, "", lambda: 5.0, past=ids.get))
    yield ids
    context.install(None)


@pytest.mark.usefixtures("past")
def test_the_upsert_has_the_rows_of_a_batch_once_when_it_is_called_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [{"id": "a", "amount": 1.0}, {"id": "b", "amount": 2.0}]
    batch = SimpleNamespace(toLocalIterator=lambda: iter(rows))
    upsert = function("upsert")

    upsert(batch, 7)
    upsert(batch, 7)

    with sqlite3.connect("orders.db") as database:
        assert database.execute("select id, amount from orders order by id").fetchall() == [("a", 1.0), ("b", 2.0)]


@pytest.mark.parametrize("name", ["upsert", "append"])
@pytest.mark.usefixtures("past")
def test_the_functions_are_fenced_and_declared_repeatable(name: str) -> None:
    made = function(name)

    assert isinstance(made, context.FencedFunction)
    assert made.repeatable


class Table:
    """What a Delta table remembers, and the writer that reaches it: its sink skips versions that an id has."""

    def __init__(self) -> None:
        self.rows: list[str] = []
        self.versions: dict[str, int] = {}

    def batch(self, row: str) -> Any:
        options: dict[str, Any] = {}

        def save(_: str) -> None:
            if options["txnVersion"] > self.versions.get(options["txnAppId"], -1):
                self.versions[options["txnAppId"]] = options["txnVersion"]
                self.rows.append(row)

        writer = SimpleNamespace(save=save)
        writer.format = writer.mode = lambda _: writer
        writer.option = lambda name, value: options.update({name: value}) or writer
        return SimpleNamespace(write=writer)


def test_the_append_skips_a_batch_that_comes_again_and_no_batch_of_a_start_from_nothing(past: dict[str, str]) -> None:
    table, append = Table(), function("append")

    append(table.batch("first"), 0)
    append(table.batch("first"), 0)
    past["orders"] = "second-id"  # as after a start from nothing
    append(table.batch("second"), 0)

    assert table.rows == ["first", "second"]
