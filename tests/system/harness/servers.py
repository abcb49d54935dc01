"""The two servers of a demo, both real: a ZooKeeper and an Airflow, with all their data below one directory."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import httpx

from airflow_provider_ha.config import ENVIRONMENT, HaConfig
from airflow_provider_ha.coordination.embedded import free_port
from airflow_provider_ha.testing.waiting import wait_until
from tests.system.harness import processes
from tests.system.harness.rest import AirflowApi


REPOSITORY = Path(__file__).parents[3]
CONN_ID = "spark_ha_default"
USER = "admin"

_START_SECONDS = 600
_NEEDED_DISK = 1_000_000_000
# Each driver lives for a minute at most: the second compiler costs it more than it returns.
_SPARK_DEFAULTS = "spark.driver.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC\n"


class ServerError(Exception):
    """A server did not come up; says where its log is and shows the end of it."""


class Servers:
    """ZooKeeper and Airflow of one demo.

    :param home: Everything lies below it. What an earlier demo left there is removed by :meth:`prepare`.
    :param python: Interpreter of the environment in which both are installed.
    """

    components: ClassVar[tuple[str, ...]] = ("metadatabase", "scheduler", "triggerer", "dag_processor")

    def __init__(self, home: Path, *, python: Path = Path(sys.executable)) -> None:
        self.home = home
        self.python = python
        self.airflow_home = home / "airflow"
        self.port = free_port()
        self.config = HaConfig.build(
            zookeeper=f"127.0.0.1:{free_port()}", storage_root=(home / "storage").as_uri(), cluster_id="demo"
        )
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        self._api: AirflowApi | None = None

    @property
    def url(self) -> str:
        """Where Airflow's user interface is."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def _spark_conf(self) -> Path:
        return self.home / "spark-conf"

    @property
    def api(self) -> AirflowApi:
        """A client of Airflow; only after :meth:`wait_until_healthy`."""
        if self._api is None:
            self._api = AirflowApi(self.url, USER, self.password())
        return self._api

    def prepare(self) -> None:
        """End what an earlier demo in this home left running, and remove its data.

        :raises ServerError: The disk is too full for a run.
        """
        processes.end_all(self.home)
        shutil.rmtree(self.home, ignore_errors=True)
        for directory in (self.airflow_home, self.home / "storage", self.home / "zookeeper", self._spark_conf):
            directory.mkdir(parents=True)
        (self._spark_conf / "spark-defaults.conf").write_text(_SPARK_DEFAULTS)
        free = shutil.disk_usage(self.home).free
        if free < _NEEDED_DISK:
            message = f"only {free:,} bytes are free in {self.home}, the demo needs {_NEEDED_DISK:,}: make room"
            raise ServerError(message)

    def start(self) -> None:
        """Start both; returns at once."""
        self.start_zookeeper()
        self._run("airflow", ["-m", "airflow", "standalone"])

    def start_zookeeper(self) -> None:
        """Start ZooKeeper alone; returns at once."""
        port = self.config.zookeeper.rpartition(":")[2]
        data = str(self.home / "zookeeper")
        self._run("zookeeper", ["-m", "airflow_provider_ha.testing.zookeeper", "--data-dir", data, "--port", port])

    def start_triggerer(self) -> None:
        """Start one more triggerer, as a second host would."""
        ports = {"AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(free_port())}
        self._run("triggerer-2", ["-m", "airflow", "triggerer"], ports)

    def wait_until_healthy(self) -> None:
        """Wait until ZooKeeper answers, every component of Airflow is healthy, and its DAGs are known.

        :raises ServerError: A server ended; shows what it said.
        """
        wait_until(self._zookeeper_answers, timeout=60, what="ZooKeeper to answer")
        wait_until(self._airflow_is_healthy, timeout=_START_SECONDS, what="Airflow to be healthy", interval=0.3)

    def wait_for_dags(self, *dag_ids: str) -> None:
        """Wait until Airflow has parsed these DAGs.

        :raises ServerError: A DAG file cannot be imported.
        """

        def known() -> bool:
            if errors := self.api.import_errors():
                raise ServerError("\n".join(errors))
            return set(dag_ids) <= self.api.dags()

        wait_until(known, timeout=300, what=f"Airflow to know {', '.join(dag_ids)}", interval=0.3)

    def password(self, user: str = USER) -> str:
        """Airflow's own generated password of a user."""
        path = self.airflow_home / "simple_auth_manager_passwords.json.generated"
        return str(json.loads(path.read_text())[user])

    def to_go_on(self) -> list[str]:
        """Return what a person needs for a job of another script: where DAGs go, and lines to paste into a shell."""
        exports = [
            f"export {variable}={shlex.quote(value)}"
            for field, variable in ENVIRONMENT.items()
            if field in self.config.model_fields_set and isinstance(value := getattr(self.config, field), str)
        ]
        return [
            f"DAGs folder: {self.environment()['AIRFLOW__CORE__DAGS_FOLDER']}",
            "For `spark-ha` in a shell:",
            *exports,
            "make demo-stop ends it",
        ]

    def stop(self) -> list[int]:
        """End everything that the demo started. Returns the ids of processes that had to be killed."""
        if self._api is not None:
            self._api.close()
        killed = processes.end_all(self.home)
        for process in self._started.values():
            process.wait()
        return killed

    def environment(self) -> dict[str, str]:
        """Environment of Airflow. No key of a real installation is read: its home is the demo's own."""
        return {
            "AIRFLOW_HOME": str(self.airflow_home),
            "AIRFLOW_CONN_SPARK_HA_DEFAULT": json.dumps(self._connection()),
            "AIRFLOW__API__BASE_URL": self.url,
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__ENABLE_XCOM_DESERIALIZE_SUPPORT": "True",  # Airflow 3.0 refuses the question otherwise
            "AIRFLOW__API__PORT": str(self.port),
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "True",
            "AIRFLOW__CORE__DAGS_FOLDER": str(REPOSITORY / "dags"),
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__PARALLELISM": "4",
            "AIRFLOW__CORE__TEST_CONNECTION": "Enabled",
            # The files do not change, and to parse them costs a core for seconds.
            "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "120",
            "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(free_port()),
            "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(free_port()),
            "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.5",
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
            # Airflow starts its components, and they their workers, by the name "airflow".
            "PATH": os.pathsep.join((str(self.python.parent), os.environ.get("PATH", os.defpath))),
            # A demo shares its cores with other processes: slow is not dead.
            "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "60",
            "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "60",
            "PYTHONWARNINGS": "ignore",
            "SPARK_CONF_DIR": str(self._spark_conf),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }

    def _connection(self) -> dict[str, Any]:
        host, _, port = self.config.zookeeper.rpartition(":")
        return {"conn_type": "spark_ha", "host": host, "port": int(port), "extra": self._extra()}

    def _extra(self) -> dict[str, Any]:
        return {"storage_root": self.config.storage_root, "cluster_id": self.config.cluster_id}

    def _run(self, name: str, arguments: list[str], env: dict[str, str] | None = None) -> None:
        environment = {**self.environment(), **(env or {})}
        self._started[name] = processes.start(
            [str(self.python), *arguments], home=self.home, env=environment, log=self.home / f"{name}.log"
        )

    def _zookeeper_answers(self) -> bool:
        self._check_alive()
        host, _, port = self.config.zookeeper.rpartition(":")
        try:
            with socket.create_connection((host, int(port)), timeout=1) as connection:
                connection.sendall(b"ruok")
                return connection.recv(4) == b"imok"
        except OSError:
            return False

    def _airflow_is_healthy(self) -> bool:
        self._check_alive()
        try:
            health = httpx.get(f"{self.url}/api/v2/monitor/health", timeout=5, trust_env=False).json()
        except (httpx.HTTPError, ValueError):
            return False
        return all(health.get(part, {}).get("status") == "healthy" for part in self.components)

    def _check_alive(self) -> None:
        for name, process in self._started.items():
            if process.poll() is not None:
                log = self.home / f"{name}.log"
                last = log.read_text(errors="replace")[-3000:]
                message = f"{name} ended with code {process.returncode}; its log {log} ends with:\n{last}"
                raise ServerError(message)
