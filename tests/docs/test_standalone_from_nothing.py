"""The page about a cluster from nothing to a killed host is a script that works, and its output is exact."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import blocks_of
from tests.support.clusters.standalone_cluster import NAMESPACES, can_make_hosts
from tests.support.s3 import versitygw
from tests.support.s3.s3a_jars import s3a_jars
from tests.support.spark.spark_with import spark_with


PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "standalone-from-nothing.md"
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
    for block in blocks_of(PAGE):
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
