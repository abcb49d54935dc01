"""Standalone engine: drivers on the workers of a Spark standalone cluster, launched through its masters' REST servers.

``spark-submit`` refuses Python drivers in cluster mode there; the REST server does not. The cluster runs this package's
supervisor: a small JVM (Spark's ``PythonRunner``) starts it as ``python -m``, and it starts ``spark-submit`` on the
worker, as the local engine does on the submitting host. So the exit record proves the death of all the driver's
processes, conf travels in a private file on the worker's disk, and a lost driver is restarted in place.

Invariants:

- The request contains no user data and no secret: the master shows it, and the worker puts it on a command line.
- A request without an answer is not repeated, because every request creates another driver. The supervisor reports its
  driver's id under the submission (``supervisor.one_driver``). That report locates the driver, and makes a second one
  exit.
- Only a worker that saw the JVM exit reports FINISHED, FAILED or KILLED. ERROR (a worker was lost), RELAUNCHING,
  UNKNOWN and "not found" prove nothing.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator, Sequence

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.errors import (
    ConfigurationError,
    EngineUnavailableError,
    OutcomeUnknownError,
)
from airflow_provider_ha.host.engines._master_rest import (
    AnswerLostError,
    MasterResponse,
    MasterRest,
    MasterUnreachableError,
)
from airflow_provider_ha.host.engines.engine import (
    EngineCheck,
    EngineFacts,
    GoneSubmission,
    Observation,
    PendingSubmission,
    RunningSubmission,
    UnknownSubmission,
    WantedSubmission,
)
from airflow_provider_ha.host.engines.standalone_arrival import StandaloneDriver
from airflow_provider_ha.host.engines.table import (
    CONFIG_FILE_OPTION,
    PYTHON_OPTION,
    REST_MASTERS_OPTION,
    REST_PORT_OPTION,
    REST_SCHEME_OPTION,
    SPARK_HOME_OPTION,
    STANDALONE,
)
from airflow_provider_ha.jobs.drivers.driver_home import (
    CONFIG_FILE_VARIABLE,
    HANDLE_VARIABLE,
    HOME_OPTION,
    TICKET_VARIABLE,
    ConfigSource,
    Ticket,
)
from airflow_provider_ha.jobs.drivers.driver_spec import SUBMISSION_VARIABLE, SUPERVISOR_MODULE
from airflow_provider_ha.jobs.job_graph import JobGraph, Target
from airflow_provider_ha.jobs.options.conf import engine_options
from airflow_provider_ha.jobs.runs.submissions import DriverHandle
from airflow_provider_ha.storage.blobs import get_blob
from airflow_provider_ha.storage.keys import STANDBY
from airflow_provider_ha.storage.open_storage import open_store


log = logging.getLogger(__name__)

REST_PORT = "6066"  # Spark's default
MAIN_CLASS = "org.apache.spark.deploy.PythonRunner"
# The JVM only waits for the supervisor: one compiler and a single-threaded collector are enough.
_JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_PROVEN = ("FINISHED", "FAILED", "KILLED")
# The supervisor learns of the JVM's end immediately, and kills its processes within milliseconds.
_SETTLE_SECONDS = 1.0
_POLL_SECONDS = 0.5
_RELEASE = re.compile(r"(\d+)\.(\d+)\.(\d+)")
_AUTHENTICATION = ("spark.authenticate", "spark.authenticate.enableSaslEncryption")
_ENCRYPTION = ("spark.network.crypto.", "spark.network.sasl.")
_SERVER = re.compile(r"[^,:/\s]+:\d+")
_MASTER = re.compile(r"spark://(?P<servers>[^,:/\s]+:\d+(,[^,:/\s]+:\d+)*)")


class StandaloneEngine:
    """Engine that starts drivers on the workers of a standalone cluster.

    :param config: Storage of the graphs, and options of the engine for all jobs.
    :param launch_seconds: Seconds for a driver to report itself after the answer to its launch was lost.
    :param sleep: Function that waits, in place of ``time.sleep``.
    """

    name = STANDALONE.name

    def __init__(
        self, config: HaConfig, *, launch_seconds: float = 60.0, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.config = config
        self.facts = EngineFacts(launch_seconds=launch_seconds, poll_seconds=_POLL_SECONDS, runs_here=False)
        self._sleep = sleep
        self._settled: set[str] = set()

    def check(self, target: Target) -> None:
        """Refuse targets other than a standalone cluster, and options that this engine does not read.

        :raises ConfigurationError: The master is not a ``spark://`` URL, or an option is wrong.
        """
        if target.deploy_mode != "client":
            raise ConfigurationError(
                f"the standalone engine starts spark-submit on a worker, which has no deploy mode {target.deploy_mode}",
                next_step="Leave the deploy mode out: the engine itself runs the driver on the cluster",
            )
        STANDALONE.check_options(target.engine_options)
        rest_urls(target.master, engine_options(self.config, target))

    def check_host(self) -> None:
        """Accept every host: the drivers run on the workers of the cluster."""

    def probe(self, target: Target) -> Iterator[EngineCheck]:
        """Yield the answer of each master, with its Spark; workers and drivers have the same release.

        The release is unknown if an option names another Spark for the drivers.

        :raises ConfigurationError: As :func:`rest_urls`.
        """
        options = engine_options(self.config, target)
        for url in rest_urls(target.master, options):
            try:
                seen = MasterRest(url).status("none")
            except (MasterUnreachableError, AnswerLostError) as error:
                yield EngineCheck(f"of {url}", str(error), usable=False)
                continue
            match = None if SPARK_HOME_OPTION in options else _RELEASE.match(seen.spark)
            release = tuple(map(int, match.groups())) if match is not None else None
            yield EngineCheck(f"of {url}", seen.standby or "active", usable=not seen.standby, spark=release)

    def reserve(self, ticket: Ticket) -> None:
        """Reserve nothing: the master makes the id of a driver."""

    def launch(self, ticket: Ticket, reserved: DriverHandle | None) -> DriverHandle:
        """Request a driver from the active master.

        :raises ConfigurationError: The master refuses it.
        :raises EngineUnavailableError: The masters are inactive or unreachable; the engine launched no driver.
        :raises OutcomeUnknownError: The answer to the request was lost, so the master may have created a driver.
        """
        del reserved
        graph = JobGraph.from_bytes(
            get_blob(open_store(self.config), ticket.graph.sha256), source=f"job graph {ticket.graph.sha256[:12]}"
        )
        options = engine_options(self.config, graph.target)
        urls = rest_urls(graph.target.master, options)
        blank = StandaloneDriver(masters=",".join(urls))
        environment = environment_of(ticket, blank, options)
        said: list[str] = []
        for url in urls:
            try:
                answer = MasterRest(url).create(
                    main_class=MAIN_CLASS,
                    arguments=["-m", "", SUPERVISOR_MODULE, HOME_OPTION, home_of(ticket)],
                    properties=properties_of(graph, ticket),
                    environment=environment,
                )
            except MasterUnreachableError as error:
                said.append(str(error))
                continue
            except AnswerLostError as error:
                raise OutcomeUnknownError(f"it is unknown whether a driver was launched: {error}") from error
            if answer.success and answer.driver:
                log.info("%s has taken %s run %d %s as %s", url, *_names(ticket), answer.driver)
                return blank.model_copy(update={"driver": answer.driver}).handle()
            if not answer.standby:
                raise _refused(url, answer)
            said.append(f"{url} is {answer.standby}")
        raise EngineUnavailableError(
            f"no master of {graph.target.master} takes a driver: {'; '.join(said)}",
            next_step="Start a master with spark.master.rest.enabled=true. Before Spark 4 a master with "
            "spark.authenticate.secret has no REST server, and the standalone engine cannot use it",
        )

    def observe(self, wanted: Sequence[WantedSubmission]) -> dict[str, Observation]:
        """Request the state of each driver from all masters, whose protocol has no request for many drivers.

        Without a handle the state is unknown, because masters do not know this package's ids. The driver's supervisor
        reports itself.
        """
        return {each.submission_id: self._observe(each.handle) for each in wanted}

    def _observe(self, handle: DriverHandle | None) -> Observation:
        if handle is None:
            return UnknownSubmission(
                "masters do not know the ids of submissions: its supervisor reports itself when it starts"
            )
        driver = StandaloneDriver.of(handle)
        seen = _ask_all(driver)
        states = {answer.state: answer for answer in seen.answers}
        # If two masters both consider themselves active, the old master may report the more advanced state.
        for state in ("RUNNING", "SUBMITTED"):
            if state in states:  # guard: one-master-proves-against-another
                if state == "SUBMITTED":
                    return PendingSubmission("no worker has room for it yet")
                others = (answer for answer in seen.answers if answer.state != state)
                doubt = "; ".join(_words(driver, answer) for answer in others)
                return RunningSubmission(handle, doubt, host=states[state].worker.rpartition(":")[0])
        unproven = [answer for answer in seen.answers if answer.state not in _PROVEN]
        if not seen.answers or unproven:  # guard: error-proves-a-death
            return UnknownSubmission("; ".join([*(_words(driver, answer) for answer in unproven), *seen.silent]))
        proof = next(iter(seen.answers))
        self._settle(driver.driver, proof.state)
        return GoneSubmission(f"{driver.driver} is {proof.state}: the worker {proof.worker} saw its JVM exit")

    def terminate(self, handle: DriverHandle) -> None:
        """Request the end of a driver from the cluster; its supervisor kills and reports, and the JVM waits for that.

        :raises EngineUnavailableError: No active master can be reached.
        """
        driver = StandaloneDriver.of(handle)
        said: list[str] = []
        for url in driver.urls:
            try:
                answer = MasterRest(url).kill(driver.driver)
            except (MasterUnreachableError, AnswerLostError) as error:
                said.append(str(error))
                continue
            if not answer.standby:
                return  # requested, or already ended: ``observe`` distinguishes them
            said.append(f"{url} is {answer.standby}")
        raise EngineUnavailableError(
            f"{driver.driver} could not be ended: {'; '.join(said)}",
            next_step="Repeat it once a master is active",
        )

    def forget(self, handle: DriverHandle) -> None:
        """Remove nothing: masters and workers remove the remains of ended drivers themselves."""

    def _settle(self, driver: str, state: str) -> None:
        """Wait, once per driver, until the kernel has notified its supervisor of the JVM's end."""
        if state != "FINISHED" and driver not in self._settled:
            self._sleep(_SETTLE_SECONDS)
            self._settled.add(driver)


class _Seen:
    """Answers of the masters about one driver."""

    def __init__(self) -> None:
        self.answers: list[MasterResponse] = []
        self.silent: list[str] = []


def _ask_all(driver: StandaloneDriver) -> _Seen:
    seen = _Seen()
    for url in driver.urls:
        try:
            answer = MasterRest(url).status(driver.driver)
        except (MasterUnreachableError, AnswerLostError) as error:
            seen.silent.append(str(error))
            continue
        if answer.standby:
            seen.silent.append(f"{url} is {answer.standby}")
        else:
            seen.answers.append(answer)
    return seen


def rest_urls(master: str, options: dict[str, str]) -> tuple[str, ...]:
    """Return the REST servers of all masters of a master URL. Pure.

    :raises ConfigurationError: The URL is not for a standalone cluster, or an option is wrong.
    """
    found = _MASTER.fullmatch(master)
    if found is None:
        raise ConfigurationError(
            f"the master {master!r} is not that of a standalone cluster",
            next_step="Write spark://host:7077, or with several masters spark://host1:7077,host2:7077",
        )
    scheme, port = options.get(REST_SCHEME_OPTION, "http"), options.get(REST_PORT_OPTION, REST_PORT)
    if scheme not in ("http", "https") or not port.isdigit():
        raise ConfigurationError(
            f"the REST servers of the masters cannot be at {scheme!r}, port {port!r}",
            next_step=f"Correct the engine options {REST_SCHEME_OPTION!r} (http or https) and {REST_PORT_OPTION!r}",
        )
    if not all(_SERVER.fullmatch(server.strip()) for server in options.get(REST_MASTERS_OPTION, "h:0").split(",")):
        raise ConfigurationError(
            f"the engine option {REST_MASTERS_OPTION!r} is {options[REST_MASTERS_OPTION]!r}",
            next_step="Write host:port,host:port, one for each master",
        )
    named = [server.strip() for server in options.get(REST_MASTERS_OPTION, "").split(",") if server.strip()]
    hosts = named or [f"{server.rpartition(':')[0]}:{port}" for server in found["servers"].split(",")]
    return tuple(f"{scheme}://{host}" for host in hosts)


def home_of(ticket: Ticket) -> str:
    """Return the name of a driver's home in the directory that its worker gives it. Pure."""
    return f"attempt-{STANDBY}-{ticket.submission_id}" if ticket.is_standby else f"attempt-{ticket.attempt}"


def environment_of(ticket: Ticket, blank: StandaloneDriver, options: dict[str, str]) -> dict[str, str]:
    """Return the environment of the supervisor. The master shows it: no secret, no user data."""
    ticket = ticket.model_copy(update={"config": ConfigSource.MACHINE})
    values = {
        SUBMISSION_VARIABLE: ticket.submission_id,
        TICKET_VARIABLE: ticket.model_dump_json(),
        HANDLE_VARIABLE: blank.handle().model_dump_json(),
    }
    if python := options.get(PYTHON_OPTION):
        values |= {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python}
    if file := options.get(CONFIG_FILE_OPTION):
        values[CONFIG_FILE_VARIABLE] = file
    return values


def properties_of(graph: JobGraph, ticket: Ticket) -> dict[str, str]:
    """Return the conf of the supervisor's JVM. The master shows it, so it has only user keys that a driver needs.

    The memory is the amount that the worker reserves for the driver that the supervisor starts.
    """
    values = {
        "spark.app.name": f"spark-ha-{ticket.submission_id}",
        "spark.master": graph.target.master,
        "spark.submit.deployMode": "cluster",
        "spark.driver.supervise": "false",
        "spark.driver.extraJavaOptions": _JAVA_OPTIONS,
    }
    # The JVM communicates with its worker. The secret is not included: the worker provides it in the environment.
    values |= {key: value for key, value in graph.conf.items() if speaks_as(key)}
    memory = graph.driver_memory or graph.conf.get("spark.driver.memory")
    cores = graph.conf.get("spark.driver.cores")
    return (
        values | ({"spark.driver.memory": memory} if memory else {}) | ({"spark.driver.cores": cores} if cores else {})
    )


def speaks_as(key: str) -> bool:
    """Return whether a conf key configures authentication or encryption in the cluster, and is no secret. Pure."""
    return key in _AUTHENTICATION or key.startswith(_ENCRYPTION)


def _refused(url: str, answer: MasterResponse) -> ConfigurationError:
    return ConfigurationError(
        f"the master at {url} refuses the driver: {answer.message}",
        next_step="Check the address of its REST server, and the resources that the driver requests",
    )


def _words(driver: StandaloneDriver, answer: MasterResponse) -> str:
    if answer.state == "ERROR":
        return f"{driver.driver} is ERROR: its worker was lost, and its processes may live on"
    return f"{driver.driver} is {answer.state or 'not known'} ({answer.message})"


def _names(ticket: Ticket) -> Sequence[str | int]:
    return (ticket.job_id, ticket.run, home_of(ticket))
