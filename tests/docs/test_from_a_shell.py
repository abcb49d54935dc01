"""The page about the life of a job from a shell is a script that works, with a real Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.config import HaConfig
from tests.docs.blocks import blocks_of
from tests.support.clusters import submit_helpers as helpers


PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "from-a-shell.md"
ZOOKEEPER = "127.0.0.1:2191"  # of the page


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_the_commands_work_in_order(config: HaConfig, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "orders.txt").write_text("one\ntwo\n")
    lines = []
    for block in blocks_of(PAGE):
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
