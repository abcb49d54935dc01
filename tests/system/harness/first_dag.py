"""An Airflow that has the DAGs of the README and nothing else, and the script that its job runs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
from typing_extensions import Self

from airflow_provider_ha.testing.waiting import wait_until
from tests.docs.blocks import blocks_of
from tests.system.harness import processes
from tests.system.harness.compare import sink_files
from tests.system.harness.servers import REPOSITORY, Servers
from tests.system.small_airflow import alive


DAG_ID, JOB_ID = "my_stream", "my-stream"
_SCRIPT = REPOSITORY / "tests" / "apps" / "system" / "counting.py"
_BUNDLE = "airflow.dag_processing.bundles.local.LocalDagBundle"


class FirstDag(Servers):
    """ZooKeeper, and an Airflow with the README's DAGs, word for word but for the paths in them."""

    @property
    def output(self) -> Path:
        """Where the job writes."""
        return self.home / "data" / "out"

    @contextmanager
    def running(self) -> Iterator[Self]:
        """Have both up, for the time of the block; what an interrupted proof left is ended first."""
        self.prepare()
        self._write_dags()
        try:
            self.start()
            self.wait_until_healthy()
            self.wait_for_dags(DAG_ID)
            yield self
        finally:
            self.stop()

    def environment(self) -> dict[str, str]:
        """What Airflow is started with."""
        bundle = {"name": "readme", "classpath": _BUNDLE, "kwargs": {"path": str(self.home / "dags")}}
        return super().environment() | {
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps([bundle]),
        }

    def schedulers(self) -> list[psutil.Process]:
        """Return the processes of the scheduler, its executor's workers included."""
        found = [process for process in processes.of_home(self.home) if _is_scheduler(process)]
        return found + [child for process in found for child in process.children(recursive=True)]

    def kill_airflow(self) -> None:
        """Kill every process of Airflow with SIGKILL, as a host that dies would; the job and ZooKeeper stay."""
        standalone, zookeeper = self._started.pop("airflow"), psutil.Process(self._started["zookeeper"].pid)
        stays = {zookeeper, *zookeeper.children(recursive=True)}
        gone = [
            process
            for process in processes.of_home(self.home)
            if process not in stays and not processes.is_of_a_driver(process)
        ]
        for process in gone:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        standalone.wait()
        wait_until(lambda: not any(map(alive, gone)), timeout=60, what="Airflow to be gone")

    def restart_airflow(self) -> None:
        """Start Airflow again on its database, and wait until it is healthy."""
        self._run("airflow", ["-m", "airflow", "standalone"])
        self.wait_until_healthy()

    def _write_dags(self) -> None:
        (self.home / "dags").mkdir()
        (self.home / "data").mkdir()
        for number, block in enumerate(blocks_of(REPOSITORY / "README.md")):
            if block.language == "python":
                text = block.text.replace("/opt/jobs/my_stream.py", str(_SCRIPT))
                text = text.replace("/data/", f"{self.home / 'data'}/")
                (self.home / "dags" / f"readme_{number}.py").write_text(text, encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Output:
    """What the script wrote: numbers from 0 on, each once."""

    path: Path

    def compare(self) -> tuple[int, list[str]]:
        """Return the rows, and what is wrong with them."""
        lines = (line for file in sink_files(self.path) for line in file.read_text(encoding="utf-8").splitlines())
        found = Counter(json.loads(line)["value"] for line in lines)
        twice = sum(count > 1 for count in found.values())
        missing = max(found, default=-1) + 1 - len(found)
        wrong = [f"{twice:,} rows are duplicated."] if twice else []
        if not found:
            return 0, ["Nothing was written."]
        return found.total(), wrong + ([f"{missing:,} rows are lost."] if missing else [])


def _is_scheduler(process: psutil.Process) -> bool:
    try:
        return "scheduler" in {word for argument in process.cmdline() for word in argument.split()}
    except psutil.Error:
        return False
