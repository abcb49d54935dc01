"""Component in the JVM: conf, gate, releases and file system. The JVM is a stand-in."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ha import __version__
from airflow_provider_ha.config import HaConfig, S3Options
from airflow_provider_ha.driver.jvm import component as component_module
from airflow_provider_ha.driver.jvm.component import (
    SIMPLE_CREDENTIALS,
    Component,
    ComponentLeader,
    GateKeeper,
    check_names,
    prepare_file_system,
    s3a_conf,
)
from airflow_provider_ha.errors import ApplicationRefusedError, ConfigurationError
from airflow_provider_ha.jobs.options.conf import (
    MANAGER,
    MANAGER_CLASS,
    component_conf,
    is_layered,
    refuse_owned,
    writer_id,
)
from airflow_provider_ha.jobs.options.job_options import HaOptions
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
        system = SimpleNamespace(setProperty=self.properties.__setitem__, getProperty=self.properties.get)
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


@pytest.mark.parametrize(("before", "plugins"), [({}, ""), ({"spark.plugins": "org.example.Own"}, "org.example.Own,")])
def test_copies_of_state_are_set_with_their_directory_and_limit(before: dict[str, str], plugins: str) -> None:
    jvm = Jvm()
    jvm.properties |= before
    options = HaOptions(local_recovery=True, local_recovery_dir="/var/copies", local_recovery_mb=500)

    component(jvm).prepare(dataclasses.replace(LEADER, options=options), {})

    prefix = "spark.hadoop.fs.ha.copies"
    assert {key: value for key, value in jvm.properties.items() if key.startswith((prefix, "spark.plugins"))} == {
        prefix: "true",
        f"{prefix}.directory": "/var/copies",
        f"{prefix}.mb": "500",
        "spark.plugins": f"{plugins}io.github.sparkha.CopiesPlugin",
    }


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

    assert MANAGER in component_conf("hdfs://nn/x")


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


ROOT = "s3a://bucket/live/prod"
ENDPOINT = "spark.hadoop.fs.s3a.bucket.bucket.endpoint"


class FileSystemJvm:
    """A JVM with a release of Hadoop, and with S3A or not."""

    def __init__(self, hadoop: str = "3.4.2", failure: Exception | None = None, given: tuple[str, ...] = ()) -> None:
        self.properties = dict.fromkeys(given, "http://of-the-user:9000")
        self.opened: list[str] = []
        self._failure = failure
        system = SimpleNamespace(getProperty=self.properties.get, setProperty=self.properties.__setitem__)
        self.java = SimpleNamespace(lang=SimpleNamespace(System=system), net=SimpleNamespace(URI=str))
        self.io = SimpleNamespace(
            github=SimpleNamespace(sparkha=SimpleNamespace(Component=SimpleNamespace(version=lambda: __version__)))
        )
        helper = SimpleNamespace(newConfiguration=lambda conf: conf)
        apache = SimpleNamespace(
            hadoop=SimpleNamespace(
                util=SimpleNamespace(VersionInfo=SimpleNamespace(getVersion=lambda: hadoop)),
                fs=SimpleNamespace(FileSystem=SimpleNamespace(newInstance=self._new)),
            ),
            spark=SimpleNamespace(
                SparkConf=lambda: self.properties,
                deploy=SimpleNamespace(SparkHadoopUtil=SimpleNamespace(get=lambda: helper)),
            ),
        )
        self.org = SimpleNamespace(apache=apache)

    def _new(self, uri: str, conf: dict[str, str]) -> Any:
        if self._failure is not None:
            raise self._failure
        return SimpleNamespace(close=lambda: self.opened.append(f"{uri} {conf.get(ENDPOINT)}"))


def test_a_file_system_is_made_with_what_the_connection_says() -> None:
    jvm = FileSystemJvm()

    prepare_file_system(jvm, ROOT, {}, {ENDPOINT: "http://s3:9000"})

    assert jvm.opened == [f"{ROOT} http://s3:9000"]


def test_a_file_system_is_made_for_a_root_with_any_name() -> None:
    jvm = FileSystemJvm()

    prepare_file_system(jvm, "s3a://bucket/w\u00f6rk root #1%20+?", {}, {})

    assert jvm.opened == ["s3a://bucket/w%C3%B6rk%20root%20%231%2520%2B%3F None"]


def test_a_jvm_that_would_work_in_a_directory_of_another_name_is_refused() -> None:
    def to_path() -> None:
        raise ValueError("Malformed input or input contains unmappable characters")

    jvm: Any = SimpleNamespace(java=SimpleNamespace(io=SimpleNamespace(File=lambda _: SimpleNamespace(toPath=to_path))))

    with pytest.raises(ConfigurationError, match="cannot name '/data/w\u00f6rk': its locale is without UTF-8"):
        check_names(lambda: jvm, ["/data", "/data/w\u00f6rk"])


def test_what_the_user_has_set_stays() -> None:
    jvm = FileSystemJvm(given=(ENDPOINT,))

    prepare_file_system(jvm, ROOT, {}, {ENDPOINT: "http://s3:9000"})

    assert jvm.opened == [f"{ROOT} http://of-the-user:9000"]


def test_a_jvm_without_s3a_is_told_what_to_add() -> None:
    jvm = FileSystemJvm(
        failure=RuntimeError("ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found")
    )

    with pytest.raises(ConfigurationError, match=r"cannot open s3a://bucket.*S3AFileSystem not found") as refused:
        prepare_file_system(jvm, ROOT, {}, {})

    assert "packages=['org.apache.hadoop:hadoop-aws:3.4.2']" in str(refused.value)


@pytest.mark.parametrize("release", ["3.3.4", "3.4.1"])
def test_a_hadoop_that_cannot_create_on_condition_is_refused(release: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"Hadoop {release}.*Use Spark 4\.1 or newer"):
        prepare_file_system(FileSystemJvm(release), ROOT, {}, {})


def test_hdfs_needs_no_later_hadoop() -> None:
    jvm = FileSystemJvm("3.3.4")

    prepare_file_system(jvm, "hdfs://nn/x", {}, {})

    assert jvm.opened == ["hdfs://nn/x None"]


def test_a_conf_that_sets_what_is_ours_is_refused_before_a_property_is_set() -> None:
    jvm = FileSystemJvm()

    with pytest.raises(ApplicationRefusedError, match=r"the Spark conf sets spark\.hadoop\.fs\.ha\.root"):
        prepare_file_system(jvm, ROOT, {"spark.hadoop.fs.ha.root": "s3a://other"}, {ENDPOINT: "http://s3:9000"})

    assert jvm.properties == {}


def config(**values: Any) -> HaConfig:
    return HaConfig.build(
        zookeeper="zk:2181", storage_root="file:///s", work_root="s3://bucket/live", home_root="file:///h", **values
    )


def test_the_conf_of_the_work_root_holds_for_its_bucket_alone() -> None:
    options = S3Options.model_validate(
        {"endpoint_url": "http://s3:9000", "access_key": "a-key", "secret_key": "hidden"}
    )

    assert s3a_conf(config(s3=options)) == {
        f"spark.hadoop.fs.s3a.bucket.bucket.{key}": value
        for key, value in {
            "endpoint": "http://s3:9000",
            "endpoint.region": "us-east-1",
            "path.style.access": "true",
            "aws.credentials.provider": SIMPLE_CREDENTIALS,
            "access.key": "a-key",
            "secret.key": "hidden",
        }.items()
    }


def test_without_keys_in_the_connection_the_site_says_where_they_are() -> None:
    assert s3a_conf(config(s3=S3Options(region="eu-west-1", path_style=False))) == {
        "spark.hadoop.fs.s3a.bucket.bucket.endpoint.region": "eu-west-1",
        "spark.hadoop.fs.s3a.bucket.bucket.path.style.access": "false",
    }


def test_a_mounted_work_root_needs_none() -> None:
    assert s3a_conf(HaConfig.build(zookeeper="zk:2181", storage_root="file:///s")) == {}
