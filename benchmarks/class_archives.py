"""A small streaming program on Spark, with a class archive and by spark-submit.

The program reads three files in micro-batches, with state and a file sink, and ends: a start and a few first batches.
The time with an archive includes the request for the JVM's command and the comparison of the archive with its digest.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from airflow_provider_ha.host.archives.archive_store import ArchiveStore
from airflow_provider_ha.host.archives.driver_launch import DriverLaunch, driver_launch
from airflow_provider_ha.jobs.drivers.spark_release import find_spark_home
from benchmarks.shared import effort, median, show


SCRIPT = Path(__file__).parents[1] / "tests" / "apps" / "archived.py"


def run(words: Sequence[str], environment: Mapping[str, str]) -> tuple[float, float]:
    """Run the program; return its seconds and its CPU seconds."""
    with tempfile.TemporaryDirectory() as folder:
        began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([*words, folder], env=dict(environment), check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return time.monotonic() - began, cpu


def main() -> None:
    """Make an archive, measure in turn, and print the table."""
    rounds = effort(__doc__, pairs=5).pairs
    home = find_spark_home(None)
    environment = os.environ | {
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    with tempfile.TemporaryDirectory() as place:
        store, properties = ArchiveStore(Path(place, "archives")), Path(place, "properties")
        properties.write_text("spark.driver.memory 1g\n", encoding="utf-8")
        call = [str(home / "bin" / "spark-submit"), "--properties-file", str(properties), str(SCRIPT)]

        def launch() -> DriverLaunch:
            return driver_launch(call, environment, store, enabled=True)

        first = launch()
        made = first.training.run(store, os.environ) if first.training is not None else None
        if made is None:
            sys.exit(first.reason)
        plain, archived = list[tuple[float, float]](), list[tuple[float, float]]()
        for _ in range(rounds):
            plain.append(run(call, environment))
            began = time.monotonic()
            own = launch()
            asked = time.monotonic() - began
            if own.archive is None:
                sys.exit(own.reason)
            seconds, cpu = run(own.words, own.environment)
            archived.append((seconds + asked, cpu))
    base = median([seconds for seconds, _ in plain])
    rows = []
    for name, found in (("spark-submit", plain), ("with a class archive", archived)):
        seconds, cpu = (median(values) for values in zip(*found, strict=True))
        rows.append([name, f"{seconds:.1f} s", f"{cpu:.1f} s", f"{seconds / base:.2f}"])
    show(f"class archive, {rounds} rounds; it took {made.seconds:.0f} s", ["", "median", "CPU", "ratio"], rows)


if __name__ == "__main__":
    main()
