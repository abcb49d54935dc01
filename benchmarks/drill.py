"""How long the proof of a small cut takes, by step: two queries with state, 4 partitions each."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from airflow_provider_ha.api.documents.verification import proof_view
from airflow_provider_ha.checkpoints.model import QueryCut, QuerySink, SinkKind
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import progress
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.verify.proof_protocol import Application
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.jobs.drivers.driver_spec import host_environment
from airflow_provider_ha.jobs.verification.job_drill import Stopwatch
from airflow_provider_ha.jobs.verification.job_verification import ProofOptions, prove_cut
from benchmarks.shared import repeat, show


ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
# Run twice: by itself it makes the checkpoints, under a proof it is the application of the job.
SCRIPT = """
import sys
from pyspark.sql import SparkSession

source, checkpoints = sys.argv[1:]
spark = SparkSession.builder.master("local[2]").getOrCreate()
rows = spark.readStream.schema("key string, value long").json(source)
for name, frame, mode in (
    ("dedup", rows.dropDuplicates(["key", "value"]), "append"),
    ("counts", rows.groupBy("key").count(), "update"),
):
    writer = frame.writeStream.queryName(name).format("noop").outputMode(mode).trigger(availableNow=True)
    writer.option("checkpointLocation", f"{checkpoints}/{name}").start().awaitTermination()
"""
ROWS, PARTITIONS = 400, 4
QUERIES = ("dedup", "counts")


def checkpoints(place: Path, partitions: int) -> Application:
    """Make the checkpoints of both queries below *place*; return the application that goes on from them."""
    source, script = place / "in", place / "application.py"
    source.mkdir(parents=True)
    lines = [json.dumps({"key": f"k{number % 50}", "value": number}) for number in range(ROWS)]
    (source / "rows.json").write_text("\n".join(lines))
    script.write_text(SCRIPT)
    conf = {
        "spark.sql.shuffle.partitions": str(partitions),
        "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
        "spark.ui.enabled": "false",
    }
    arguments = (str(source), str(place / "live"))
    options = " ".join(f"--conf {key}={value}" for key, value in conf.items())
    environment = {**host_environment(), "PYSPARK_SUBMIT_ARGS": f"{options} pyspark-shell"}
    subprocess.run([sys.executable, str(script), *arguments], check=True, env=environment, stderr=subprocess.DEVNULL)
    return Application(script=script, arguments=arguments, conf=conf)


def steps(place: Path, application: Application) -> Mapping[str, float]:
    """Prove both queries; return step -> seconds."""
    live, scratch, watch = place / "live", place / "scratch", Stopwatch(SystemClock())
    scratch.mkdir()
    cut = {
        query: QueryCut(batch=progress(LocalTree(live / query)).committed, sink=QuerySink(kind=SinkKind.OTHER))
        for query in QUERIES
    }
    proofs = prove_cut(
        LocalTree(live),
        cut,
        scratch,
        application=application,
        options=ProofOptions(),
        progress_to=lambda now: watch.begin(now.step.value),
    )
    watch.end()
    for query, proof in proofs.items():
        if not proof.proven:
            raise SystemExit(f"{query} is not proven: {proof_view(proof).to_json()}")
    return {**watch.seconds, "total": watch.total}


def measure_once(quick: bool) -> None:
    """Measure and print; the run of Spark that makes the checkpoints is the baseline."""
    del quick  # there is nothing that could be left out
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        application = checkpoints(Path(folder), PARTITIONS)
        baseline = time.perf_counter() - began
        found = steps(Path(folder), application)
    show(
        f"the proof of a cut of two queries with state, {ROWS} rows, {PARTITIONS} partitions each, by step",
        ("step", "seconds", "ratio"),
        [
            ("Spark makes both checkpoints", f"{baseline:.1f}", "1.00"),
            *((name, f"{seconds:.1f}", f"{seconds / baseline:.2f}") for name, seconds in found.items()),
        ],
    )


if __name__ == "__main__":
    repeat(__doc__, measure_once)
