"""The component of a driver whose working directory is not a local path."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_ha.driver.jvm.gate import GateKeeper
from airflow_provider_ha.driver.jvm.release import check_driver, check_executors
from airflow_provider_ha.errors import ApplicationRefusedError
from airflow_provider_ha.jobs.options.component_conf import MANAGER, MANAGER_CLASS, component_conf, refuse_owned


@dataclass(frozen=True, slots=True)
class Leader:
    """The current leader, for the gate and for the store.

    :param directory: URI of the epoch's working directory, as Spark sees it.
    :param root: Storage root with the plain scheme.
    :param writer: See :func:`airflow_provider_ha.jobs.options.component_conf.writer_id`.
    """

    job: str
    epoch: int
    directory: str
    root: str
    writer: str


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
        self._leader: Leader | None = None
        self._checked: set[str] = set()

    def prepare(self, leader: Leader, conf: Mapping[str, str]) -> None:
        """Set the conf, and open the gate.

        :param conf: The user's conf.
        :raises ApplicationRefusedError: It contradicts the component's.
        :raises ConfigurationError: The JVM has no component of this release.
        """
        refuse_owned(conf)
        check_driver(self._jvm)
        for key, value in component_conf(leader.root, leader.writer).items():
            self._jvm.java.lang.System.setProperty(key, value)
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
