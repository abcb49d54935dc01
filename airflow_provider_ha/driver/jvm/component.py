"""Component in the JVM of a driver whose working directory is not a local path: release, file system, setup and gate.

The JVM does not know ZooKeeper: the driver sends it the end of the lease. When this process is frozen, the JVM gets no
further updates, and the gate closes on its own; when the machine is suspended, the gate's clock counts that time.

S3A is no part of Spark: its jars come with the job, or were added to the Spark of the site. And only later releases of
it can create an object conditionally. Other reads and writes of a script keep the conf of its user, with other
endpoints and other keys. The conf of the work root holds secrets: the driver sets it in its JVM, and Spark's own RPC
brings it to the executors. It is on no disk.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from airflow_provider_ha._version import __version__
from airflow_provider_ha.config import HaConfig, S3Options
from airflow_provider_ha.driver.spark_conf import gateway
from airflow_provider_ha.errors import ApplicationRefusedError, ConfigurationError
from airflow_provider_ha.jobs.drivers.spark_release import is_local
from airflow_provider_ha.jobs.options.conf import (
    COPIES,
    MANAGER,
    MANAGER_CLASS,
    PLUGINS,
    WRITER,
    component_conf,
    copies_conf,
    needs_component,
    refuse_owned,
    with_copies_plugin,
)
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.uris import hadoop_uri, split


_UPTIME = Path("/proc/uptime")  # read by the gate, too: in a container it may differ from CLOCK_BOOTTIME
_RESOLUTION = 0.01  # seconds: the file's two decimals are cut off, not rounded


class GateKeeper:
    """Prolongs the lease of the JVM in a separate thread, which ends with the process.

    :param gate: The component's class ``Gate``, through py4j.
    :param lease_left: Seconds for which this process may act as the leader, counted from before the request to
        ZooKeeper.
    :param interval: Seconds between two prolongations.
    :param failed: Called when the thread cannot continue.
    """

    def __init__(
        self, gate: Any, lease_left: Callable[[], float], interval: float, failed: Callable[[BaseException], None]
    ) -> None:
        self._gate = gate
        self._lease_left = lease_left
        self._interval = interval
        self._failed = failed
        self._over = threading.Event()

    def open(self, job: str, epoch: int, directory: str) -> None:
        """From now on, pass entries of this epoch's queries.

        :param directory: URI of the working directory, as Spark sees it.
        """
        self._gate.bind(job, epoch, directory)
        self._prolong()
        threading.Thread(target=self._keep, name="gate-keeper", daemon=True).start()

    def follow(self, job: str, epoch: int, directory: str) -> None:
        """Pass only entries of another directory of the same epoch from now on."""
        self._gate.bind(job, epoch, directory)
        self._prolong()

    def close(self, reason: str) -> None:
        """Block all entries from now on."""
        self._over.set()
        self._gate.close(reason)

    def _keep(self) -> None:
        try:
            while not self._over.wait(self._interval) and self._prolong():
                pass
        except BaseException as error:  # noqa: BLE001  # a gate without its keeper would end the queries one by one
            if not self._over.is_set():
                self._failed(error)

    def _prolong(self) -> bool:
        """Send the end of the lease to the JVM; returns whether there is one."""
        before = uptime()
        left = self._lease_left()
        if left <= 0:  # guard: gate-stays-open-after-the-lease
            self._gate.close("the lease of this process is over")
            return False
        self._gate.extend(int((before + left - _RESOLUTION) * 1000))
        return True


def uptime() -> float:
    """Return the seconds since boot, time of suspension included."""
    return float(_UPTIME.read_text(encoding="ascii").split()[0])


_CALL = "java_method('io.github.sparkha.Component', 'version')"
_NEXT_STEP = (
    "Remove other releases of spark-ha-component from the images, the class paths and spark.jars of the cluster"
)


def check_driver(jvm: Any) -> None:
    """Refuse a driver without the component.

    :raises ConfigurationError: It is missing, or of another release.
    """
    try:
        found = str(jvm.io.github.sparkha.Component.version())
    except Exception as error:  # py4j shows a class that is missing as a package, and the call as a wrong type
        raise ConfigurationError(
            f"the driver's JVM does not have the component ({type(error).__name__})",
            next_step="Start it with the jar in spark.jars",
        ) from error
    _check("driver", {found})


def check_executors(session: Any) -> None:
    """Refuse executors without the component. One short job; it does not cover executors that come later.

    :raises ConfigurationError: It is missing, or of another release.
    """
    if is_local(session.sparkContext.master):
        return
    tasks = 2 * int(session.sparkContext.defaultParallelism)
    try:
        rows = session.range(0, tasks, 1, tasks).selectExpr(f"{_CALL} AS release").distinct().collect()
    except Exception as error:  # any error that Spark raises when a class is missing on an executor
        raise ConfigurationError(
            f"the executors do not have the component: {str(error)[:300]}",
            next_step="Let them fetch spark.jars from the driver, or put the jar into their image",
        ) from error
    _check("executors", {str(row.release) for row in rows})


def _check(who: str, found: set[str]) -> None:
    if found != {__version__}:
        raise ConfigurationError(
            f"the {who} of this application have the component of release {', '.join(sorted(found))}, "
            f"and airflow-provider-ha is {__version__}",
            next_step=_NEXT_STEP,
        )


@dataclass(frozen=True, slots=True)
class ComponentLeader:
    """The current leader, for the gate and for the store.

    :param directory: URI of the epoch's working directory, as Spark sees it.
    :param root: Storage root with the plain scheme.
    :param writer: See :func:`airflow_provider_ha.jobs.options.conf.writer_id`.
    :param options: The job's.
    """

    job: str
    epoch: int
    directory: str
    root: str
    writer: str
    options: HaOptions = field(default_factory=HaOptions)


class Component:
    """Sets the JVM up before the script makes its session, and refuses queries that would run unfenced.

    :param jvm: The JVM of this driver, through py4j.
    :param lease_left: Seconds for which this process may act as the leader.
    :param interval: Seconds between two prolongations of the gate.
    :param failed: Called when the gate cannot be kept.
    """

    def __init__(
        self, jvm: Any, lease_left: Callable[[], float], interval: float, failed: Callable[[BaseException], None]
    ) -> None:
        self._jvm = jvm
        self._lease_left = lease_left
        self._interval = interval
        self._failed = failed
        self._keeper: GateKeeper | None = None
        self._leader: ComponentLeader | None = None
        self._checked: set[str] = set()

    def prepare(self, leader: ComponentLeader, conf: Mapping[str, str]) -> None:
        """Set the conf, and open the gate.

        :param conf: The user's conf.
        :raises ApplicationRefusedError: It contradicts the component's.
        :raises ConfigurationError: The JVM has no component of this release.
        """
        refuse_owned(conf)
        check_driver(self._jvm)
        set_up(self._jvm, leader.root, leader.options)
        switch = {COPIES: "true"} if leader.options.local_recovery else {}
        for key, value in {WRITER: leader.writer, **switch}.items():
            self._jvm.java.lang.System.setProperty(key, value)
            set_in_context(key, value)
        keeper = GateKeeper(self._jvm.io.github.sparkha.Gate, self._lease_left, self._interval, self._failed)
        keeper.open(leader.job, leader.epoch, leader.directory)
        self._keeper, self._leader = keeper, leader

    def move_to(self, directory: str) -> None:
        """Allow commits to another directory of the epoch, and no longer to the first one.

        :param directory: Its URI, as Spark sees it.
        """
        assert self._keeper is not None, "it was prepared"  # noqa: S101  # the caller's order
        assert self._leader is not None, "as above"  # noqa: S101  # as above
        self._keeper.follow(self._leader.job, self._leader.epoch, directory)

    def close(self, reason: str) -> None:
        """Block all further commits of queries."""
        if self._keeper is not None:
            self._keeper.close(reason)

    def watch_sink(self, output: str, reached: int) -> None:
        """End the query of an output when its log has an entry that is neither known here nor of this driver.

        :param output: Directory of a file sink, as ``output_place`` returns it.
        :param reached: The last batch in its log; -1 for none.
        """
        self._jvm.io.github.sparkha.SinkLogs.start(output, reached)

    def check_session(self, session: Any) -> None:
        """Refuse a session whose queries another manager would write, before any write of a query.

        :raises ApplicationRefusedError: Its conf names another one.
        :raises ConfigurationError: Executors have no component of this release.
        """
        found = session.conf.get(MANAGER, None)
        if found != MANAGER_CLASS:
            raise ApplicationRefusedError(
                f"the session of the query has {MANAGER} = {found!r}: it would run without the fence",
                next_step=f"Do not set {MANAGER} in the script",
            )
        application = str(session.sparkContext.applicationId)
        if application not in self._checked:
            check_executors(session)
            self._checked.add(application)

    def check_query(self, handle: Any, name: str) -> None:
        """Stop a query whose offset log another manager writes, and refuse it.

        :param handle: pyspark's, of a query that was started.
        :raises ApplicationRefusedError: It is written by another manager.
        """
        found = str(handle._jsq.streamingQuery().offsetLog().fileManager().getClass().getName())  # noqa: SLF001  # pyspark has no public way to it
        if found != MANAGER_CLASS:
            handle.stop()
            raise ApplicationRefusedError(
                f"query {name!r} writes its offset log with {found}: it would run without the fence",
                next_step=f"Do not set {MANAGER} in the script",
            )


def set_up(jvm: Any, root: str, options: HaOptions) -> None:
    """Set the conf that depends on no epoch: a standby driver makes its session before it leads.

    :param root: Storage root with Hadoop's scheme.
    :param options: The job's.
    """
    system = jvm.java.lang.System
    for key, value in {**component_conf(root), **copies_conf(options)}.items():
        system.setProperty(key, value)
    if options.local_recovery:
        system.setProperty(PLUGINS, with_copies_plugin(system.getProperty(PLUGINS)))


def set_in_context(key: str, value: str) -> None:
    """Set a property of Hadoop in the context that a standby driver has made; every query sends it to its executors."""
    from pyspark import SparkContext  # pyspark is imported inside functions

    context = SparkContext._active_spark_context  # noqa: SLF001  # there is no public way that makes none
    if context is not None:
        context._jsc.hadoopConfiguration().set(key.removeprefix("spark.hadoop."), value)  # noqa: SLF001  # as above


@contextmanager
def rehearsal(jvm: Any, location: str, seconds: float) -> Iterator[None]:
    """Open the gate for a standby driver's own queries, and close it again.

    :param location: URI of the only directory whose logs may be written with the component, besides other schemes.
    """
    gate = jvm.io.github.sparkha.Gate
    gate.bind("warm-up", 0, location)
    gate.extend(int((uptime() + seconds) * 1000))
    try:
        yield
    finally:
        gate.close("the warm-up is over")  # guard: gate-open-after-a-warm-up


SIMPLE_CREDENTIALS = "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"


def s3a_conf(config: HaConfig) -> dict[str, str]:
    """Return Spark's conf with which S3A reaches the work root; empty if that is not on S3.

    Without keys in the connection S3A finds credentials by its own chain, as it is configured for the site.
    """
    root = split(config.work_uri)
    if root.scheme != "s3":
        return {}
    options = config.s3 or S3Options()
    values = {"endpoint.region": options.region, "path.style.access": str(options.path_style).lower()}
    if options.endpoint_url is not None:
        values["endpoint"] = options.endpoint_url
    if options.access_key is not None and options.secret_key is not None:
        values["aws.credentials.provider"] = SIMPLE_CREDENTIALS
        values["access.key"] = options.access_key.get_secret_value()
        values["secret.key"] = options.secret_key.get_secret_value()
    return {f"spark.hadoop.fs.s3a.bucket.{root.authority}.{key}": value for key, value in values.items()}


S3A_NEEDS = (3, 4, 2)  # HADOOP-19256: conditional create
_RELEASE = re.compile(r"(\d+)\.(\d+)\.(\d+)")


def check_names(jvm: Callable[[], Any], roots: Iterable[str]) -> None:
    """Refuse a JVM that would replace characters in the name of a root, and work in another directory.

    :param jvm: Returns it; called for names that not every locale can encode.
    :raises ConfigurationError: Its locale cannot encode them all.
    """
    for root in (root for root in roots if not root.isascii()):
        path = jvm().java.io.File(root)
        try:
            path.toPath()
        except Exception as error:  # an error of py4j: InvalidPathException
            raise ConfigurationError(
                f"the driver's JVM cannot name {root!r}: its locale is without UTF-8",
                next_step="Set LC_ALL to C.UTF-8 in the environment of the job",
            ) from error


def prepare_file_system(jvm: Any, root: str, conf: Mapping[str, str], site: Mapping[str, str]) -> None:
    """Set the conf that reaches the storage root, and check that this JVM has a file system for it. Contacts no server.

    :param root: Storage root with Hadoop's scheme.
    :param conf: The user's conf.
    :param site: The connection's settings for the root. Properties already set in the JVM are the user's, and stay.
    :raises ApplicationRefusedError: The conf sets reserved keys.
    :raises ConfigurationError: The JVM lacks the component or the file system; another host's JVM may have it.
    """
    refuse_owned(conf)
    check_driver(jvm)
    _check_hadoop(jvm, root)
    try:
        warm_up(jvm, root, site)
    except Exception as error:  # an error of py4j, with Java's exception
        hadoop = str(jvm.org.apache.hadoop.util.VersionInfo.getVersion())
        raise ConfigurationError(
            f"the driver's JVM cannot open {root}: {_reason(error)}",
            next_step=f"Give the job packages=['org.apache.hadoop:hadoop-aws:{hadoop}'], or put S3A of Hadoop {hadoop} "
            "into Spark's directory of jars, and check its conf (spark.hadoop.fs.s3a.*)",
        ) from error


def warm_up(jvm: Any, root: str, site: Mapping[str, str]) -> None:
    """Set the conf of the storage root, make a file system for it and close it: this loads its classes.

    A file system in Hadoop's cache would keep this conf, which precedes the script's. Raises Java's exception.
    """
    system = jvm.java.lang.System
    for key, value in site.items():
        if system.getProperty(key) is None:
            system.setProperty(key, value)
    conf = jvm.org.apache.spark.deploy.SparkHadoopUtil.get().newConfiguration(jvm.org.apache.spark.SparkConf())
    jvm.org.apache.hadoop.fs.FileSystem.newInstance(jvm.java.net.URI(quote(root, safe=":/@")), conf).close()


def warm_up_for(config: HaConfig) -> None:
    """Load S3A's classes into this driver's JVM, if the work root needs them: this takes a second."""
    if needs_component(config):
        warm_up(gateway(), hadoop_uri(config.work_uri), s3a_conf(config))


def _check_hadoop(jvm: Any, root: str) -> None:
    found = str(jvm.org.apache.hadoop.util.VersionInfo.getVersion())
    match = _RELEASE.match(found)
    release = tuple(map(int, match.groups())) if match else S3A_NEEDS
    if split(root).scheme == "s3a" and release < S3A_NEEDS:
        raise ConfigurationError(
            f"this Spark has Hadoop {found}, whose S3A cannot create an object on condition: two drivers could both "
            "believe that they have committed a batch",
            next_step="Use Spark 4.1 or newer, or a work root on a mounted file system",
        )


def _reason(error: Exception) -> str:
    """Return Java's message, without its stack."""
    thrown = getattr(error, "java_exception", None)
    return str(thrown.toString() if thrown is not None else error)[:500]
