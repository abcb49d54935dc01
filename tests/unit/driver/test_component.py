"""The driver's side of the component: conf, gate, releases, and which queries are refused. The JVM is stood in for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ha import __version__
from airflow_provider_ha.driver.jvm import component as component_module
from airflow_provider_ha.driver.jvm.component import Component, ComponentLeader, GateKeeper
from airflow_provider_ha.errors import ApplicationRefusedError, ConfigurationError
from airflow_provider_ha.jobs.options.conf import (
    MANAGER,
    MANAGER_CLASS,
    component_conf,
    is_layered,
    refuse_owned,
    writer_id,
)
from airflow_provider_ha.testing.waiting import wait_until


LEADER = ComponentLeader("j", 8, "has3a://b/root/jobs/j/e8-x", "s3a://b/root", writer_id(8, "s", "p"))
OTHER = "org.apache.spark.Other"


class FakeGate:
    """What the gate was told."""

    def __init__(self) -> None:
        self.bound: tuple[str, int, str] | None = None
        self.deadlines: list[int] = []
        self.closed = ""

    def bind(self, job: str, epoch: int, directory: str) -> None:
        self.bound = (job, epoch, directory)

    def extend(self, deadline: int) -> None:
        self.deadlines.append(deadline)

    def close(self, reason: str) -> None:
        self.closed = reason


class Jvm:
    """A JVM with the component of a release."""

    def __init__(self, release: str = __version__) -> None:
        self.properties: dict[str, str] = {}
        self.gate = FakeGate()
        component = SimpleNamespace(version=lambda: release)
        system = SimpleNamespace(setProperty=self.properties.__setitem__)
        self.java = SimpleNamespace(lang=SimpleNamespace(System=system))
        self.io = SimpleNamespace(github=SimpleNamespace(sparkha=SimpleNamespace(Component=component, Gate=self.gate)))


class Session:
    """A session whose executors have the component of some releases."""

    def __init__(self, manager: str | None = MANAGER_CLASS, master: str = "local[2]", *releases: str) -> None:
        self.conf = SimpleNamespace(get=lambda key, default: {MANAGER: manager}.get(key, default))
        self.sparkContext = SimpleNamespace(master=master, defaultParallelism=2, applicationId="app-1")
        self._rows = [SimpleNamespace(release=release) for release in releases]
        self.jobs = 0

    def range(self, *_: int) -> Session:
        self.jobs += 1
        if not self._rows:
            raise RuntimeError("ClassNotFoundException: io.github.sparkha.Component")
        return self

    def selectExpr(self, _: str) -> Session:  # noqa: N802  # pyspark's name
        return self

    def distinct(self) -> Session:
        return self

    def collect(self) -> list[Any]:
        return self._rows


def component(jvm: Jvm, lease_left: Callable[[], float] = lambda: 10.0) -> Component:
    def failed(error: BaseException) -> None:
        raise AssertionError(error)

    return Component(jvm, lease_left, 60.0, failed)


def test_conf_and_gate_are_set_before_there_is_a_session() -> None:
    jvm = Jvm()

    component(jvm).prepare(LEADER, {"spark.hadoop.fs.s3a.endpoint": "https://s3.example.com"})

    assert jvm.properties == {
        "spark.hadoop.fs.has3a.impl": "io.github.sparkha.HaFileSystem",
        "spark.hadoop.fs.ha.root": "s3a://b/root",
        "spark.hadoop.fs.ha.writer": "8/s/p",
        "spark.sql.streaming.checkpointFileManagerClass": "io.github.sparkha.HaCheckpointFileManager",
    }
    assert jvm.gate.bound == ("j", 8, "has3a://b/root/jobs/j/e8-x")
    assert len(jvm.gate.deadlines) == 1


@pytest.mark.parametrize(
    ("location", "layered"),
    [
        ("has3a://b/x", True),
        ("hahdfs://nn:8020/x", True),
        ("hafile:///x", True),
        ("file:///x", False),
        ("har://x", False),
    ],
)
def test_only_locations_of_the_component_need_it(location: str, layered: bool) -> None:
    assert is_layered(location) is layered


@pytest.mark.parametrize(
    "key", [MANAGER, "spark.hadoop.fs.has3a.impl", "spark.hadoop.fs.ha.root", "spark.hadoop.fs.ha.deletes"]
)
def test_a_conf_that_sets_what_is_ours_is_refused(key: str) -> None:
    with pytest.raises(ApplicationRefusedError, match=f"the Spark conf sets {key}.*Remove it"):
        component(Jvm()).prepare(LEADER, {key: OTHER})


def test_what_is_set_already_by_us_is_no_contradiction() -> None:
    refuse_owned({MANAGER: MANAGER_CLASS, "spark.hadoop.fs.har.impl": OTHER})

    assert MANAGER in component_conf("hdfs://nn/x", "w")


@pytest.mark.parametrize("where", ["driver", "executors"])
def test_a_component_of_another_release_is_refused(where: str) -> None:
    checks: dict[str, Callable[[], None]] = {
        "driver": lambda: component(Jvm("0.0.1")).prepare(LEADER, {}),
        "executors": lambda: component(Jvm()).check_session(Session(MANAGER_CLASS, "spark://m:7077", "0.0.1")),
    }

    with pytest.raises(ConfigurationError, match=f"the {where} of this application have the component of release 0"):
        checks[where]()


def test_a_driver_without_the_component_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"does not have the component.*spark\.jars"):
        component(SimpleNamespace(io=SimpleNamespace())).prepare(LEADER, {})  # type: ignore[arg-type]


def test_executors_without_the_component_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="the executors do not have the component: ClassNotFound"):
        component(Jvm()).check_session(Session(MANAGER_CLASS, "spark://m:7077"))


def test_executors_are_asked_once_and_local_ones_never() -> None:
    remote, local = Session(MANAGER_CLASS, "spark://m:7077", __version__), Session()
    one = component(Jvm())
    for _ in range(2):
        one.check_session(remote)
    component(Jvm()).check_session(local)

    assert (remote.jobs, local.jobs) == (1, 0)


@pytest.mark.parametrize("manager", [OTHER, None])
def test_a_session_with_another_manager_is_refused(manager: str | None) -> None:
    with pytest.raises(ApplicationRefusedError, match="would run without the fence"):
        component(Jvm()).check_session(Session(manager))


@pytest.mark.parametrize("manager", [MANAGER_CLASS, OTHER])
def test_a_query_with_another_manager_is_stopped_and_refused(manager: str) -> None:
    stopped = threading.Event()
    kind = SimpleNamespace(getClass=lambda: SimpleNamespace(getName=lambda: manager))
    log = SimpleNamespace(fileManager=lambda: kind)
    execution = SimpleNamespace(offsetLog=lambda: log)
    handle = SimpleNamespace(_jsq=SimpleNamespace(streamingQuery=lambda: execution), stop=stopped.set)

    if manager == MANAGER_CLASS:
        component(Jvm()).check_query(handle, "q")
        assert not stopped.is_set()
        return
    with pytest.raises(ApplicationRefusedError, match=f"query 'q' writes its offset log with {OTHER}"):
        component(Jvm()).check_query(handle, "q")
    assert stopped.is_set()


def test_the_lease_is_counted_from_before_it_was_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(component_module, "uptime", lambda: now[0])

    def look() -> float:
        now[0] += 5  # an answer that took its time
        return 2.0

    fake = FakeGate()
    keeper = GateKeeper(fake, look, 60.0, lambda _: None)
    keeper.open("j", 8, "hafile:///x")
    keeper.close("over")

    assert fake.deadlines == [1_001_990]
    assert fake.closed == "over"


def test_the_gate_is_closed_when_the_lease_is_over() -> None:
    left = [10.0]
    fake = FakeGate()
    GateKeeper(fake, lambda: left[0], 0.01, lambda _: None).open("j", 8, "hafile:///x")
    wait_until(lambda: len(fake.deadlines) > 1, timeout=30, what="a prolongation")
    left[0] = 0.0

    wait_until(lambda: fake.closed != "", timeout=30, what="the end of the lease")
    assert fake.closed == "the lease of this process is over"


def test_a_jvm_that_does_not_answer_ends_the_driver() -> None:
    failures: list[BaseException] = []
    fake = FakeGate()
    keeper = GateKeeper(fake, lambda: 10.0, 0.01, failures.append)
    keeper.open("j", 8, "hafile:///x")

    def broken(_: int) -> None:
        raise ConnectionError("the JVM is gone")

    fake.extend = broken  # type: ignore[assignment,method-assign]
    wait_until(lambda: bool(failures), timeout=30, what="the failure")

    assert isinstance(failures[0], ConnectionError)
