"""A real standalone cluster on this machine: masters with recovery by ZooKeeper, and workers on test hosts.

A test host is a worker with its own process, mount and UTS namespaces: its own processes, its own disk and its own
name. Every host sees its disk at the same path, and not those of the others; what is outside of it (the package, a
shared directory) all of them see. To lose a host is to lose its processes and its disk at once.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.embedded import free_ports
from airflow_provider_ha.host import die_with_parent
from airflow_provider_ha.host.engines.standalone import StandaloneEngine
from airflow_provider_ha.jobs.drivers.driver_spec import SUBMISSION_VARIABLE, write_private
from airflow_provider_ha.jobs.drivers.spark_release import installed_spark
from airflow_provider_ha.jobs.job_graph import Target
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters.masters_zookeeper import MastersZooKeeper


HOST = "127.0.0.1"
PATIENCE = 180.0
MEMORY, CORES = "8g", 8  # of a worker
# Seconds after which a master gives a silent worker up. A worker that waits for the end of a driver is silent, too: it
# may be so for TERMINATE_SECONDS, beside the two seconds between its heartbeats.
WORKER_TIMEOUT = 12
TERMINATE_SECONDS = 5  # that a worker waits for a driver that it has asked to end
INIT = Path(__file__).parents[2] / "apps" / "host_init.py"
SMALL_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
NAMESPACES = ["unshare", "--pid", "--mount", "--uts", "--fork", "--kill-child", "--mount-proc"]


def can_make_hosts() -> bool:
    """Whether this user may make the namespaces of a test host."""
    found = shutil.which("unshare")
    return found is not None and not subprocess.run([*NAMESPACES, "true"], check=False, capture_output=True).returncode


def spark_home() -> Path:
    """Return Spark's directory, which the daemons and the drivers use."""
    found = installed_spark().home
    assert found is not None, "pyspark is installed for the tests"
    return found


@dataclass
class Daemon:
    """A JVM of the cluster, and what becomes of it.

    :param spark: Spark's directory, which it and what it starts use.
    :param bound: Whether it ends with this process: a killed test leaves nothing.
    :param environment: Of it and what it starts, beside what it needs.
    """

    process: subprocess.Popen[bytes] | None = None
    spark: Path = field(default_factory=spark_home)
    bound: bool = True
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def pid(self) -> int:
        """Process id of what was started."""
        assert self.process is not None, "it was started"
        return self.process.pid

    def start(self) -> None:
        """Start it; what it waits for is asked of the cluster."""
        raise NotImplementedError

    def start_as(self, command: list[str], log: Path, environment: dict[str, str]) -> None:
        bound = [sys.executable, "-I", "-S", die_with_parent.__file__, str(os.getpid())] if self.bound else []
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [*bound, *command],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def kill(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@dataclass
class Master(Daemon):
    """One master with its REST server."""

    root: Path = field(default_factory=Path)
    port: int = 0
    rest_port: int = 0
    page_port: int = 0
    recovery: str = ""
    conf: dict[str, str] = field(default_factory=dict)

    def start(self) -> None:
        options = {
            "spark.master.rest.enabled": "true",
            "spark.master.rest.host": HOST,
            "spark.master.rest.port": str(self.rest_port),
            "spark.worker.timeout": str(WORKER_TIMEOUT),
            **self.conf,
        }
        if self.recovery:
            options |= {"spark.deploy.recoveryMode": "ZOOKEEPER", "spark.deploy.zookeeper.url": self.recovery}
        command = [str(self.spark / "bin" / "spark-class"), "org.apache.spark.deploy.master.Master"]
        places = ["--host", HOST, "--port", str(self.port), "--webui-port", str(self.page_port)]
        environment = _daemon_environment(self.spark, options) | self.environment
        self.start_as([*command, *places], self.log, environment)

    @property
    def log(self) -> Path:
        """What it says."""
        return self.root / f"master-{self.port}.log"

    @property
    def seen(self) -> dict[str, Any]:
        """What its page says; nothing while it does not answer."""
        try:
            with urllib.request.urlopen(f"http://{HOST}:{self.page_port}/json/", timeout=5) as page:
                return dict(json.load(page))
        except (OSError, ValueError):
            return {}

    @property
    def active(self) -> bool:
        return bool(self.seen.get("status") == "ALIVE")

    def drivers(self, state: str) -> int:
        """Return the number of drivers that have ended in a state."""
        return sum(driver["state"] == state for driver in self.seen.get("completeddrivers", ()))

    def freeze(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)


@dataclass
class TestHost(Daemon):
    """A worker with its own processes, disk, name and address.

    Executors with one address read each other's shuffle files from disk.

    :param conf: Of the worker, beside what it needs.
    :param memory: That it gives to drivers and executors, as its cores.
    """

    __test__ = False

    name: str = ""
    address: str = HOST
    root: Path = field(default_factory=Path)
    masters: str = ""
    conf: dict[str, str] = field(default_factory=dict)
    memory: str = MEMORY
    cores: int = CORES

    @property
    def disk(self) -> Path:
        """The host's disk, as the test sees it."""
        return self.root / f"disk-of-{self.name}"

    @property
    def mount_point(self) -> Path:
        """The disk, as the host itself sees it; the same path on every host."""
        return self.root / "disk"

    def outside(self, path: str | Path) -> Path:
        """Return where the test finds a file of the host."""
        return self.disk / Path(path).relative_to(self.mount_point)

    def start(self) -> None:
        self.mount_point.mkdir(exist_ok=True)
        for name in ("work", "local", "tmp", "etc"):
            (self.disk / name).mkdir(parents=True, exist_ok=True)
        command = [str(self.spark / "bin" / "spark-class"), "org.apache.spark.deploy.worker.Worker"]
        room = ["--cores", str(self.cores), "--memory", self.memory]
        places = ["--host", self.address, *room, "--webui-port", "0", self.masters]
        init = [sys.executable, str(INIT), self.name, str(self.disk), str(self.mount_point)]
        options = {
            "spark.worker.driverTerminateTimeout": f"{TERMINATE_SECONDS}s",
            "spark.worker.timeout": "8",
            "spark.worker.maxRegistrationRetries": "1000",  # default: it ends after 6 to 18 min alone
        }
        environment = _daemon_environment(self.spark, options | self.conf)
        here = {
            "SPARK_LOCAL_IP": self.address,
            "SPARK_WORKER_DIR": str(self.mount_point / "work"),
            "SPARK_LOCAL_DIRS": str(self.mount_point / "local"),
            "TMPDIR": str(self.mount_point / "tmp"),
            "PYSPARK_PYTHON": sys.executable,
        }
        environment |= here | self.environment
        self.start_as([*NAMESPACES, *init, *command, *places], self.root / f"{self.name}.log", environment)

    def config_file(self, config: HaConfig) -> Path:
        """Path on the host of the private file that says how to reach a cluster."""
        return self.mount_point / "etc" / f"{config.cluster_id}.json"

    def write_config(self, config: HaConfig) -> str:
        """Leave that file; returns its path on the host."""
        path = self.config_file(config)
        self.outside(path).parent.mkdir(parents=True, exist_ok=True)
        write_private(self.outside(path), config.to_private_json().encode())
        return str(path)

    def processes(self) -> list[psutil.Process]:
        """Return all processes of the host, but the one outside of it that holds its namespaces."""
        with contextlib.suppress(psutil.NoSuchProcess):
            return [each for each in psutil.Process(self.pid).children(recursive=True) if _lives(each)]
        return []

    def of(self, submission_id: str) -> list[psutil.Process]:
        """Return the host's processes of a submission, those of the JVM around the supervisor first."""
        return [each for each in self.processes() if _environment(each).get(SUBMISSION_VARIABLE) == submission_id]

    def jvm_of(self, submission_id: str) -> psutil.Process:
        """Return the JVM that the worker has started for a submission."""
        return next(each for each in self.of(submission_id) if "DriverWrapper" in command_of(each))

    def supervisor_of(self, submission_id: str) -> psutil.Process:
        """Return the supervisor of a submission: the child of that JVM, whose command line names it as well."""
        return self.jvm_of(submission_id).children()[0]

    def executors(self) -> list[psutil.Process]:
        """Return the executors that run here."""
        return [each for each in self.processes() if "CoarseGrainedExecutorBackend" in command_of(each)]

    @property
    def worker(self) -> psutil.Process | None:
        """The worker's JVM; ``None`` when it has ended."""
        of_worker = (each for each in self.processes() if "deploy.worker.Worker" in command_of(each))
        return next((each for each in of_worker if str(INIT) not in command_of(each)), None)

    def lose(self) -> None:
        """Lose all processes and the disk of the host at once."""
        gone = self.disk.with_name(f"lost-{self.name}-{self.pid}")
        for first in psutil.Process(self.pid).children():
            first.kill()  # the kernel kills the namespace with its first process
        self.disk.rename(gone)
        self.kill()
        shutil.rmtree(gone, ignore_errors=True)


@dataclass
class StandaloneCluster:
    """Masters, and hosts with a worker each."""

    masters: list[Master]
    hosts: list[TestHost]
    zookeeper: MastersZooKeeper | None = None

    @property
    def url(self) -> str:
        """The master URL of all masters."""
        return "spark://" + ",".join(f"{HOST}:{master.port}" for master in self.masters)

    @property
    def rest_masters(self) -> str:
        """The engine's option of that name: here every master has another port."""
        return ",".join(f"{HOST}:{master.rest_port}" for master in self.masters)

    def options(self, config: HaConfig, **more: str) -> dict[str, str]:
        """Return the engine's options for a job, and leave the configuration on every host."""
        places = {host.write_config(config) for host in self.hosts}
        return {"rest_masters": self.rest_masters, "config_file": places.pop(), **more}

    def target(self, config: HaConfig, **more: str) -> Target:
        """Return where a job's drivers run."""
        return Target(engine=StandaloneEngine.name, master=self.url, engine_options=self.options(config, **more))

    @property
    def active(self) -> Master | None:
        """The master that leads."""
        return next((master for master in self.masters if master.active), None)

    def await_workers(self, count: int | None = None) -> Master:
        """Wait until a master leads that many workers; returns it."""
        wanted = len(self.hosts) if count is None else count

        def ready() -> Master | None:
            master = self.active
            return master if master is not None and master.seen.get("aliveworkers") == wanted else None

        return wait_until(ready, timeout=PATIENCE, what=f"{wanted} workers")

    @property
    def cores_used(self) -> int | None:
        """Cores that drivers and executors hold; ``None`` while no master leads."""
        master = self.active
        return None if master is None else int(master.seen.get("coresused", -1))

    def host_of(self, submission_id: str) -> TestHost:
        """Return the host that runs a submission, once one does."""

        def found() -> TestHost | None:
            return next((host for host in self.hosts if host.of(submission_id)), None)

        return wait_until(found, timeout=PATIENCE, what="the host of the submission")

    def start(self) -> None:
        for daemon in (*self.masters, *self.hosts):
            daemon.start()

    def kill_masters(self) -> None:
        """Have no master answer any more."""
        for master in self.masters:
            master.kill()

    def start_hosts_again(self, conf: dict[str, str]) -> None:
        """Start all workers again, with this conf."""
        for host in self.hosts:
            host.kill()
            host.conf = conf
            host.start()
        self.await_workers()

    def make_whole(self) -> None:
        """Start what has ended, and continue masters that were frozen."""
        for master in self.masters:
            if master.process is None or master.process.poll() is not None:
                master.start()
            master.thaw()
        for host in self.hosts:
            if host.worker is None:
                host.kill()
                host.start()

    def stop(self) -> None:
        for daemon in (*self.hosts, *self.masters):
            daemon.kill()
        if self.zookeeper is not None:
            self.zookeeper.stop()


def build_cluster(
    root: Path,
    *,
    masters: int = 1,
    hosts: int = 1,
    recovery: str = "",
    conf: dict[str, str] | None = None,
    spark: Path | None = None,
    bound: bool = True,
    environment: dict[str, str] | None = None,
    memory: str = MEMORY,
    cores: int = CORES,
) -> StandaloneCluster:
    """Return a cluster in *root*, of which nothing runs yet.

    :param recovery: ZooKeeper by which several masters find their leader.
    :param conf: Conf of the masters.
    :param spark: Directory of the Spark that all of it uses; by default that of pyspark.
    :param bound: Whether it ends with this process.
    :param environment: Of all of it.
    :param memory: That each worker gives to drivers and executors, as its cores.
    """
    root.mkdir(parents=True, exist_ok=True)
    ports = free_ports(3 * masters)
    home = spark or spark_home()
    all_masters = [
        Master(
            root=root,
            port=one,
            rest_port=two,
            page_port=three,
            recovery=recovery,
            conf=conf or {},
            spark=home,
            bound=bound,
            environment=environment or {},
        )
        for one, two, three in zip(ports[::3], ports[1::3], ports[2::3], strict=True)
    ]
    cluster = StandaloneCluster(all_masters, [])
    cluster.hosts = [
        TestHost(
            name=f"host-{letter}",
            address=f"127.0.0.{number}",
            root=root,
            masters=cluster.url,
            spark=home,
            bound=bound,
            environment=environment or {},
            memory=memory,
            cores=cores,
        )
        for number, letter in enumerate("abcdef"[:hosts], start=2)
    ]
    return cluster


@contextlib.contextmanager
def standalone_cluster(
    root: Path,
    *,
    masters: int = 1,
    hosts: int = 1,
    conf: dict[str, str] | None = None,
    environment: dict[str, str] | None = None,
    memory: str = MEMORY,
    cores: int = CORES,
) -> Iterator[StandaloneCluster]:
    """Run a cluster in *root*; several masters find their leader by a separate ZooKeeper. See :func:`build_cluster`."""
    root.mkdir(parents=True, exist_ok=True)
    zookeeper = MastersZooKeeper(root / "zookeeper", tick_ms=200).start() if masters > 1 else None
    recovery = zookeeper.hosts if zookeeper else ""
    cluster = build_cluster(
        root,
        masters=masters,
        hosts=hosts,
        recovery=recovery,
        conf=conf,
        environment=environment,
        memory=memory,
        cores=cores,
    )
    cluster.zookeeper = zookeeper
    try:
        cluster.start()
        cluster.await_workers()
        yield cluster
    finally:
        cluster.stop()


def _daemon_environment(spark: Path, options: dict[str, str]) -> dict[str, str]:
    given = " ".join(f"-D{key}={value}" for key, value in options.items())
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    return plain | {
        "SPARK_HOME": str(spark),
        "SPARK_LOCAL_IP": HOST,
        "SPARK_DAEMON_MEMORY": "128m",
        "SPARK_DAEMON_JAVA_OPTS": f"{SMALL_JVM} {given}",
        "SPARK_LAUNCHER_OPTS": SMALL_JVM,
    }


def command_of(process: psutil.Process) -> str:
    """Return the command line of a process; nothing for one that has ended."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def _environment(process: psutil.Process) -> dict[str, str]:
    try:
        return process.environ()
    except psutil.Error:
        return {}


def _lives(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
