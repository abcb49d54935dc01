"""Settings of a session, and readers and leaders of a cluster when something fails."""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ha.config import HaConfig, S3Options
from airflow_provider_ha.coordination.coordinator import Create, Delete, Node, SessionState
from airflow_provider_ha.coordination.leader_information import LeaderRetrieval
from airflow_provider_ha.errors import ConfigurationError, JobStateError, NotConnectedError
from airflow_provider_ha.fleet import reconciler
from airflow_provider_ha.fleet.cluster_leader import ClusterLeader
from airflow_provider_ha.fleet.reconciler import ReconcileTimings
from airflow_provider_ha.hooks._connection import config_of, secrets_of
from airflow_provider_ha.jobs.removal.cleanup import clean_up
from airflow_provider_ha.testing.waiting import wait_until
from airflow_provider_ha.timings import Timings
from tests.fake.jobs import PATHS
from tests.support.clusters.coordination_helpers import HeldClock
from tests.support.fake import FakeCoordinator, FakeEnsemble


def build(**values: Any) -> HaConfig:
    return HaConfig.build(**({"zookeeper": "zk1:2181,zk2:2181", "storage_root": "file:///ha"} | values))


def connection(**extra: Any) -> tuple[Any, dict[str, Any]]:
    values = {"conn_id": "prod", "conn_type": "spark_ha", "host": "zk1,zk2", "port": None, "schema": None}
    values |= {"login": "user", "password": "login-secret"}
    host = extra.pop("host", None)
    return SimpleNamespace(**(values | ({"host": host} if host else {}))), {"storage_root": "file:///ha"} | extra


@pytest.mark.parametrize(
    ("hosts", "chroot"),
    [("zk1:2181,zk2:2181/prod", None), ("zk1:2181,zk2:2181", "/prod"), ("zk1:2181,zk2:2181/prod/", "/prod")],
)
def test_a_chroot_is_taken_off_the_hosts(hosts: str, chroot: str | None) -> None:
    config = build(zookeeper=hosts, chroot=chroot)

    assert (config.zookeeper, config.chroot) == ("zk1:2181,zk2:2181", "/prod")


def test_no_chroot_and_the_root_itself_are_the_same() -> None:
    assert build().chroot is build(chroot="/").chroot is build(zookeeper="zk1:2181/").chroot is None


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"zookeeper": "zk1:2181/a", "chroot": "/b"}, "give the chroot only in one place"),
        ({"chroot": "prod"}, "slash"),
        ({"chroot": "/a b"}, "part of the chroot"),
        ({"tls": {"cert_file": "client.pem"}}, "go together"),
        ({"tls": {"certificate": "client.pem"}}, "certificate"),
        ({"digest_auth": "user"}, "user:password"),
        ({"sasl_auth": ":password"}, "user:password"),
    ],
)
def test_impossible_settings_are_refused_with_the_reason(values: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        build(**values)


def test_an_error_never_repeats_a_secret() -> None:
    with pytest.raises(ConfigurationError) as caught:
        build(sasl_auth="hunter2", digest_auth="hunter2", tls={"cert_file": "a", "key_password": "hunter2"})

    assert "hunter2" not in str(caught.value)


def test_timings_that_do_not_fit_are_refused_with_the_figure_that_a_cut_may_last() -> None:
    with pytest.raises(ConfigurationError, match=r"4\.5 s, .*within the 1\.5 s that its lease leaves it"):
        Timings(session_timeout=4).tolerated_cut(1)

    assert Timings().tolerated_cut(3) == 7.5


def test_a_granted_timeout_is_looked_at_again() -> None:
    """An ensemble may grant less than was asked for: the inequality is about what it granted."""
    assert Timings().granted(8, 3).tolerated_cut(3) == 5.5
    with pytest.raises(ConfigurationError, match=r"granted a session timeout of 4 s, not the 10 s") as caught:
        Timings().granted(4, 3)

    assert "maxSessionTimeout" in caught.value.next_step


def test_a_tick_must_not_be_longer_than_two_heartbeats() -> None:
    Timings().check_tick(2.0)

    with pytest.raises(ConfigurationError, match="half a tick") as caught:
        Timings().check_tick(2.5)

    assert "2000 ms" in caught.value.next_step


def test_the_environment_sets_every_field(monkeypatch: pytest.MonkeyPatch) -> None:
    said = {
        "ZOOKEEPER": "zk1:2181",
        "STORAGE_ROOT": "file:///ha",
        "CHROOT": "/prod",
        "SASL_AUTH": "user:secret",
        "TLS_CA_FILE": "ca.pem",
        "TLS_CHECK_HOSTNAME": "false",
        "SESSION_TIMEOUT": "20",
        "TOLERATE_SUSPENDED": "false",
        "RETAINED_RUNS": "20",
        "RETAINED_DAYS": "1.5",
    }
    for name, value in said.items():
        monkeypatch.setenv(f"SPARK_HA_{name}", value)

    config = HaConfig.from_env()

    assert config.chroot == "/prod"
    assert config.sasl_auth is not None
    assert config.tls is not None
    assert (config.tls.ca_file, config.tls.check_hostname) == ("ca.pem", False)
    assert (config.timings.session_timeout, config.timings.tolerate_suspended) == (20, False)
    assert (config.retention.runs, config.retention.days) == (20, 1.5)


AWS = {
    "AWS_ENDPOINT_URL_S3": "https://s3.example.com:9000",
    "AWS_REGION": "eu-central-1",
    "AWS_ACCESS_KEY_ID": "key",
    "AWS_SECRET_ACCESS_KEY": "secret",
}


def s3_from_env(monkeypatch: pytest.MonkeyPatch, **more: str) -> S3Options | None:
    """Return the access to S3 of a shell with a work root in S3."""
    said = {
        "SPARK_HA_ZOOKEEPER": "zk1:2181",
        "SPARK_HA_STORAGE_ROOT": "file:///ha",
        "SPARK_HA_HOME_ROOT": "file:///home",
    }
    for name, value in (said | {"SPARK_HA_WORK_ROOT": "s3://bucket/jobs"} | AWS | more).items():
        monkeypatch.setenv(name, value)
    return HaConfig.from_env().s3


def test_a_driver_gets_the_access_to_s3_of_the_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    s3 = s3_from_env(monkeypatch)

    assert s3 is not None
    assert (s3.endpoint_url, s3.region) == ("https://s3.example.com:9000", "eu-central-1")
    assert s3.access_key is not None
    assert s3.secret_key is not None
    assert (s3.access_key.get_secret_value(), s3.secret_key.get_secret_value()) == ("key", "secret")


def test_a_driver_gets_no_temporary_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    s3 = s3_from_env(monkeypatch, AWS_SESSION_TOKEN="temporary")

    assert s3 is not None
    assert (s3.endpoint_url, s3.access_key, s3.secret_key) == ("https://s3.example.com:9000", None, None)


def test_a_cluster_without_s3_ignores_the_variables_of_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    assert s3_from_env(monkeypatch, SPARK_HA_WORK_ROOT="file:///jobs") is None


def test_a_connection_names_the_purpose_of_its_login() -> None:
    digest, sasl = config_of(*connection()), config_of(*connection(auth_scheme="sasl"))

    assert (digest.sasl_auth, sasl.digest_auth) == (None, None)
    for credentials in (digest.digest_auth, sasl.sasl_auth):
        assert credentials is not None
        assert credentials.get_secret_value() == "user:login-secret"


def test_the_fields_of_a_connection_reach_the_session() -> None:
    fields, extra = connection(
        host="zk1,zk2/prod",
        tls=True,
        tls_ca_file="ca.pem",
        tls_key_password="key-secret",
        tolerate_suspended=False,
        retained_runs=20,
        retained_days=1.5,
    )
    config = config_of(fields, extra)

    assert (config.zookeeper, config.chroot) == ("zk1:2181,zk2:2181", "/prod")
    assert config.tls is not None
    assert config.tls.ca_file == "ca.pem"
    assert config.timings.tolerate_suspended is False
    assert (config.retention.runs, config.retention.days) == (20, 1.5)
    assert "key-secret" in secrets_of(fields, extra)
    assert "key-secret" not in repr(config)


def test_tls_fields_without_the_tls_box_mean_tls() -> None:
    config = config_of(*connection(tls_check_hostname=True, tls_ca_file="ca.pem"))

    assert config.tls is not None
    assert config.tls.ca_file == "ca.pem"


@pytest.fixture
def session() -> FakeCoordinator:
    session = FakeEnsemble(members=1).connect(name="follower")
    session.ensure(PATHS.lock)
    session.commit(Create(PATHS.leader, b"epoch 1"))
    return session


@pytest.fixture
def cut(session: FakeCoordinator, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Lets the next reads of the session meet an outage, as many as are asked for."""
    find, left = session.find, list[str]()

    def fail(path: str, *, watch: Callable[[], None] | None = None) -> Node | None:
        if left:
            raise NotConnectedError(left.pop())
        return find(path, watch=watch)

    monkeypatch.setattr(session, "find", fail)
    return lambda reads: left.extend(["the fake ensemble could not be reached"] * reads)


def test_a_read_that_failed_is_made_good_by_the_next_one_with_its_watch(
    session: FakeCoordinator, cut: Callable[[int], None]
) -> None:
    heard: list[bytes | None] = []
    retrieval = LeaderRetrieval(session, PATHS, lambda node: heard.append(node.data if node else None))
    cut(1)

    with pytest.raises(NotConnectedError):
        retrieval.look()
    assert heard == []

    retrieval.look()
    session.commit(Delete(PATHS.leader))
    assert retrieval._changed.is_set(), "the watch that the failed read would have set"
    retrieval.look()
    assert heard == [b"epoch 1", None]


def test_a_leader_is_announced_again_when_the_first_read_after_an_interruption_fails(
    session: FakeCoordinator, cut: Callable[[int], None]
) -> None:
    heard: list[bytes | None] = []
    retrieval = LeaderRetrieval(session, PATHS, lambda node: heard.append(node.data if node else None))
    retrieval.look()
    retrieval._on_state(SessionState.SUSPENDED)
    retrieval._on_state(SessionState.CONNECTED)
    cut(1)

    with pytest.raises(NotConnectedError):
        retrieval.look()
    retrieval.look()

    assert heard == [b"epoch 1", b"epoch 1"]


def test_the_announcements_go_on_after_a_read_that_failed(
    session: FakeCoordinator, cut: Callable[[int], None], caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[bytes | None] = []
    cut(2)
    caplog.set_level(logging.INFO)

    with LeaderRetrieval(session, PATHS, lambda node: heard.append(node.data if node else None), poll=0.01):
        wait_until(lambda: heard == [b"epoch 1"], timeout=5, what="the leader")

    assert caplog.text.count("cannot be determined: the fake ensemble could not be reached") == 2


@pytest.fixture
def leader(monkeypatch: pytest.MonkeyPatch) -> ClusterLeader:
    client: Any = SimpleNamespace(clock=HeldClock())
    leader = ClusterLeader(client, by="test", patience=ReconcileTimings(poll=2.0))
    monkeypatch.setattr(leader, "_arm", lambda job_id: None)
    return leader


def test_jobs_that_cannot_be_listed_now_are_those_of_the_last_list(
    leader: ClusterLeader, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    leader._agenda.expect(["flights"])

    def unlisted(**_: object) -> list[str]:
        raise NotConnectedError("no server answers")

    monkeypatch.setattr(leader._client, "list_jobs", unlisted, raising=False)

    leader._expect_jobs()

    assert "the jobs cannot be listed now: no server answers" in caplog.text
    assert list(leader._agenda.take()) == ["flights"]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (NotConnectedError("no server answers"), "job flights is read again: no server answers"),
        (ZeroDivisionError("a mistake"), "job flights could not be reconciled"),
    ],
    ids=["outage", "mistake"],
)
def test_a_job_that_could_not_be_read_is_read_again_after_a_poll(
    leader: ClusterLeader,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    said: str,
) -> None:
    clock: Any = leader._client.clock

    def fail(job_id: str) -> None:
        raise error

    monkeypatch.setattr(leader, "attend", fail)
    leader._agenda.expect(["flights"])
    assert list(leader._agenda.take()) == ["flights"]

    leader._attend_watched("flights", None)

    assert said in caplog.text
    assert list(leader._agenda.take()) == []
    clock.time += 2.0
    assert list(leader._agenda.take()) == ["flights"]


def test_a_recovery_is_told_without_the_lost_log_when_the_run_cannot_be_read() -> None:
    def unread(number: int) -> None:
        raise NotConnectedError("no server answers")

    job: Any = SimpleNamespace(runs=SimpleNamespace(get=unread))
    run: Any = SimpleNamespace(run=1, attempt=2)

    assert reconciler._lost_log(job, run) == ""


def test_a_job_without_a_run_has_nothing_to_clean_up() -> None:
    job: Any = SimpleNamespace(job_id="flights", runs=SimpleNamespace(numbers=list))

    with pytest.raises(JobStateError, match="'flights' has no run"):
        clean_up(job)
