"""How a session is opened: TLS, SASL, digest, chroot; with real servers, and no secret where it does not belong."""

from __future__ import annotations

import json
import logging
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.client import KazooClient  # noqa: TID253  # looks at ACLs, which the facade does not show
from kazoo.protocol.states import KeeperState  # noqa: TID253  # as above

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.connection_groups import tls_of
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination._kazoo_client import _warn_once, make_client
from airflow_provider_ha.coordination._kazoo_reads import MANY
from airflow_provider_ha.coordination.coordinator import Create, Reads, SetData
from airflow_provider_ha.coordination.embedded import EmbeddedZooKeeper
from airflow_provider_ha.coordination.raw_socket import check_tick, close_session, server_tick
from airflow_provider_ha.errors import ConfigurationError, NotConnectedError
from airflow_provider_ha.fleet.znode_tree import read_tree, walk
from airflow_provider_ha.hooks._connection import config_of, secrets_of
from airflow_provider_ha.testing.waiting import wait_until
from tests.conftest import FAST
from tests.support.clusters.rebuild_helpers import drive, job, submit
from tests.support.clusters.secured_zookeeper import (
    KEY_PASSWORD,
    SASL_PASSWORD,
    SASL_USER,
    SecuredZooKeeper,
    secured_zookeeper,
)
from tests.support.clusters.submit_helpers import context as started_by_hand
from tests.support.clusters.submit_helpers import kill_all, pid_in, processes_of, stand_in_spark
from tests.support.clusters.submit_helpers import script as application
from tests.support.clusters.submit_helpers import submit as run_stand_in


DIGEST_PASSWORD = "digest-secret"
SECRETS = (DIGEST_PASSWORD, SASL_PASSWORD, KEY_PASSWORD)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredZooKeeper]:
    """A server that asks for certificates on one port and knows a SASL user."""
    with secured_zookeeper(tmp_path_factory.mktemp("secured")) as server:
        yield server


def by_tls(server: SecuredZooKeeper, **values: Any) -> HaConfig:
    """Return the configuration of a session by mutual TLS."""
    made = server.certificates
    tls = {
        "ca_file": str(made.authority),
        "cert_file": str(made.client),
        "key_file": str(made.client_key),
        "key_password": KEY_PASSWORD,
    }
    changed = {name: values.pop(name) for name in list(values) if name in (*tls, "check_hostname")}
    return cluster(server.secure_hosts, **({"tls": tls | changed} | values))


def cluster(hosts: str, **values: Any) -> HaConfig:
    return HaConfig.build(**({"zookeeper": hosts, "storage_root": "file:///nowhere", "timings": FAST} | values))


def refused(config: HaConfig, *, timeout: float = 2.0) -> Exception:
    """Return the error with which a session is not opened."""
    with pytest.raises((NotConnectedError, ConfigurationError)) as caught:
        KazooCoordinator.connect(config, timeout=timeout).close()
    return caught.value


def test_a_session_by_mutual_tls_reads_writes_and_can_be_closed_from_outside(secured: SecuredZooKeeper) -> None:
    config = by_tls(secured)
    dead, witness = KazooCoordinator.connect(config), KazooCoordinator.connect(config)
    assert dead.session is not None
    dead.commit(Create("/by-tls", b"data", ephemeral=True))

    assert witness.get("/by-tls").data == b"data"
    assert close_session(config, dead.session)
    assert witness.find("/by-tls") is None
    for session in (dead, witness):
        session.close()


def test_a_server_of_another_authority_is_refused_and_the_error_says_why(secured: SecuredZooKeeper) -> None:
    """Fails when certificates are not verified."""
    error = refused(by_tls(secured, ca_file=str(secured.certificates.other_authority)))

    assert "certificate verify failed" in str(error)


def test_a_certificate_for_another_name_is_refused_unless_names_are_not_checked(secured: SecuredZooKeeper) -> None:
    """The server's certificate is for 127.0.0.1. Fails with kazoo's own default, which checks no name."""
    named = f"localhost:{secured.secure_port}"

    assert "ostname mismatch" in str(refused(by_tls(secured, zookeeper=named)))
    KazooCoordinator.connect(by_tls(secured, zookeeper=named, check_hostname=False)).close()


def test_a_client_without_a_certificate_gets_no_session(secured: SecuredZooKeeper) -> None:
    refused(by_tls(secured, cert_file=None, key_file=None, key_password=None))


def test_a_certificate_file_that_is_not_there_is_named(secured: SecuredZooKeeper) -> None:
    error = refused(by_tls(secured, ca_file="/no/such/file.pem"))

    assert isinstance(error, ConfigurationError)
    assert "ca_file '/no/such/file.pem'" in str(error)


def test_nodes_of_a_sasl_user_are_readable_only_by_that_user(secured: SecuredZooKeeper) -> None:
    owner = KazooCoordinator.connect(cluster(secured.hosts, sasl_auth=f"{SASL_USER}:{SASL_PASSWORD}"))
    stranger = KazooCoordinator.connect(cluster(secured.hosts))
    owner.ensure("/by-sasl")

    with pytest.raises(ConfigurationError, match="refuses access to /by-sasl"):
        stranger.get("/by-sasl")
    with pytest.raises(ConfigurationError, match="refuses access to /by-sasl"):
        stranger.read(Reads(("/by-sasl",) * MANY))

    assert owner.get("/by-sasl").data == b""
    for session in (owner, stranger):
        session.close()


def test_a_wrong_sasl_password_is_reported_immediately(secured: SecuredZooKeeper) -> None:
    """Kazoo stops for good then: waiting for it would end as "no answer"."""
    begun = time.monotonic()

    error = refused(cluster(secured.hosts, sasl_auth=f"{SASL_USER}:wrong"), timeout=30)

    assert isinstance(error, ConfigurationError)
    assert "refuses these credentials" in str(error)
    assert time.monotonic() - begun < 10


def test_credentials_that_are_refused_later_are_reported_immediately(coordinator: KazooCoordinator) -> None:
    """After a reconnect to servers that no longer know the user; the state comes as kazoo would bring it."""
    coordinator._client._session_callback(KeeperState.AUTH_FAILED)
    begun = time.monotonic()

    with pytest.raises(ConfigurationError, match="refuses these credentials"):
        coordinator.find("/")

    assert time.monotonic() - begun < FAST.session_timeout / 2


def test_everything_lies_below_the_chroot(config: HaConfig, coordinator: KazooCoordinator) -> None:
    coordinator.ensure("/prod-a")
    below = KazooCoordinator.connect(
        HaConfig.build(zookeeper=f"{config.zookeeper}/prod-a", storage_root=config.storage_root, timings=FAST)
    )

    below.ensure("/spark-ha/default")

    assert coordinator.children("/prod-a/spark-ha") == ["default"]
    assert below.read(Reads(("/spark-ha/default",) * MANY, ("/spark-ha",))).lists == {"/spark-ha": ["default"]}
    below.close()


@pytest.mark.parametrize("beside", [0, MANY], ids=["few", "many"])
def test_a_watch_below_the_chroot_names_the_path_below_it(
    config: HaConfig, coordinator: KazooCoordinator, beside: int
) -> None:
    coordinator.ensure(f"/prod-{beside}/job")
    below = KazooCoordinator.connect(
        HaConfig.build(zookeeper=f"{config.zookeeper}/prod-{beside}", storage_root=config.storage_root, timings=FAST)
    )
    moved: list[str] = []
    below.read(Reads(("/job", "/new", *(f"/other-{number}" for number in range(beside)))), watch=moved.append)

    coordinator.commit(SetData(f"/prod-{beside}/job", b"1"), Create(f"/prod-{beside}/new"))

    wait_until(lambda: sorted(moved) == ["/job", "/new"], timeout=8, what="both watches")
    below.close()


def test_a_chroot_that_does_not_exist_is_named(config: HaConfig) -> None:
    error = refused(config.model_copy(update={"chroot": "/no-such-chroot"}))

    assert isinstance(error, ConfigurationError)
    assert "/no-such-chroot does not exist" in str(error)


def test_every_node_of_a_submitted_job_is_protected_by_the_digest(
    config: HaConfig, coordinator: KazooCoordinator, tmp_path: Path
) -> None:
    """Fails without the default ACL: a node that is made by any other way is open to all users."""
    coordinator.ensure(f"/{config.root}")  # of all clusters: the first client made it
    owned = HaConfig.build(**secrets(config))
    session = KazooCoordinator.connect(owned)
    context = job(owned, session, "flights")
    driver = drive(context, submit(context, tmp_path))
    driver.checkpoint(1)
    driver.savepoint("s1")
    base = context.paths.base.rpartition("/")[0]
    tree = read_tree(session, base)
    assert tree is not None
    paths = [node.path for node in walk(tree)]
    looking = KazooClient(hosts=config.zookeeper, auth_data=[("digest", f"user:{DIGEST_PASSWORD}")])
    looking.start()

    acls = {path: [(acl.perms, acl.id.scheme) for acl in looking.get_acls(path)[0]] for path in paths}

    assert len(paths) > 20
    assert {path: acl for path, acl in acls.items() if acl != [(31, "digest")]} == {}
    driver.leadership.release()
    looking.stop()
    looking.close()
    session.close()


def secrets(config: HaConfig) -> dict[str, Any]:
    return {
        "zookeeper": config.zookeeper,
        "storage_root": config.storage_root,
        "cluster_id": config.cluster_id,
        "timings": FAST,
        "digest_auth": f"user:{DIGEST_PASSWORD}",
    }


def test_no_secret_reaches_a_log_or_an_error(secured: SecuredZooKeeper, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    config = by_tls(secured, digest_auth=f"user:{DIGEST_PASSWORD}", sasl_auth=f"{SASL_USER}:{SASL_PASSWORD}")
    session = KazooCoordinator.connect(config)
    session.ensure("/all-of-it")
    password = session.session.password if session.session else b""
    told = [repr(config), str(config), repr(session.session), config.model_dump_json(), caplog.text]
    session.close()
    told += [str(refused(cluster(secured.hosts, sasl_auth=f"{SASL_USER}:{SASL_PASSWORD}x")))]

    assert [secret for secret in SECRETS for text in told if secret in text] == []
    assert not [text for text in told if password.hex() in text or str(password) in text]
    assert all(secret in config.to_private_json() for secret in SECRETS)


def test_no_secret_of_the_connection_is_on_a_command_line_or_in_the_environment_of_a_driver(
    config: HaConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_HOME", str(stand_in_spark(tmp_path / "spark")))
    monkeypatch.setenv("SPARK_HA_DIGEST_AUTH", f"user:{DIGEST_PASSWORD}")
    session = KazooCoordinator.connect(HaConfig.build(**secrets(config)))
    context = started_by_hand(HaConfig.build(**secrets(config)), session)
    try:
        run_stand_in(context, application(tmp_path))
        wait_until(lambda: pid_in(context, "driver.pid"), timeout=60, what="the driver to have a session")
        (view,) = context.runs.get(1).submissions
        processes = processes_of(view.submission)
        told = [" ".join([*process.cmdline(), *process.environ().values()]) for process in processes]
    finally:
        kill_all(context)
        session.close()

    assert len(told) >= 4
    assert not [text for text in told if DIGEST_PASSWORD in text]


def test_a_client_never_accepts_a_server_that_can_only_read(config: HaConfig) -> None:
    assert make_client(config).read_only is False


def test_a_session_that_is_granted_shorter_than_our_timings_need_is_refused(tmp_path: Path) -> None:
    class Stingy(EmbeddedZooKeeper):
        def _settings(self) -> dict[str, object]:
            return super()._settings() | {"maxSessionTimeout": 1000}

    with Stingy(tmp_path / "zookeeper", tick_ms=200) as server:
        error = refused(cluster(server.hosts))

    assert isinstance(error, ConfigurationError)
    assert "granted a session timeout of 1 s, not the 3 s" in str(error)
    assert "maxSessionTimeout" in error.next_step


def test_the_tick_of_the_servers_is_compared_when_they_tell_it(secured: SecuredZooKeeper, config: HaConfig) -> None:
    assert server_tick(config) == 0.2
    assert server_tick(by_tls(secured)) == 0.2
    slow = config.timings.model_copy(update={"heartbeat_interval": 0.05})

    check_tick(config)
    with pytest.raises(ConfigurationError, match="half a tick"):
        check_tick(config.model_copy(update={"timings": slow}))


def test_a_server_that_does_not_tell_its_tick_is_no_error() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        config = cluster(f"127.0.0.1:{silent.getsockname()[1]}")

        assert server_tick(config) is None
        check_tick(config)


def test_the_private_form_of_a_configuration_is_read_back_whole(secured: SecuredZooKeeper) -> None:
    config = by_tls(secured, digest_auth="user:a", sasl_auth="user:b", chroot="/prod")

    assert HaConfig.build(**json.loads(config.to_private_json())) == config


def test_a_ca_file_replaces_the_authorities_of_the_system(
    secured: SecuredZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system knows the server's authority; a cluster that names another one does not. Fails when both may vouch."""
    monkeypatch.setenv("SSL_CERT_FILE", str(secured.certificates.authority))

    KazooCoordinator.connect(by_tls(secured, ca_file=None)).close()
    error = refused(by_tls(secured, ca_file=str(secured.certificates.other_authority)))

    assert "certificate verify failed" in str(error)


def test_a_session_is_not_closed_by_a_server_that_only_the_system_knows(
    secured: SecuredZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hand-written close goes by the same authorities as the session."""
    monkeypatch.setenv("SSL_CERT_FILE", str(secured.certificates.authority))
    session = KazooCoordinator.connect(by_tls(secured))
    assert session.session is not None

    assert not close_session(by_tls(secured, ca_file=str(secured.certificates.other_authority)), session.session)

    assert session.find("/") is not None
    session.close()


@pytest.fixture
def tls_in_environment(secured: SecuredZooKeeper, monkeypatch: pytest.MonkeyPatch) -> None:
    made = secured.certificates
    monkeypatch.setenv("SPARK_HA_TLS_CA_FILE", str(made.authority))
    monkeypatch.setenv("SPARK_HA_TLS_CERT_FILE", str(made.client))
    monkeypatch.setenv("SPARK_HA_TLS_KEY_FILE", str(made.client_key))
    monkeypatch.setenv("SPARK_HA_TLS_KEY_PASSWORD", KEY_PASSWORD)


@pytest.mark.usefixtures("tls_in_environment")
def test_tls_settings_of_the_environment_are_tls_on_the_wire(secured: SecuredZooKeeper) -> None:
    config = HaConfig.from_env(zookeeper=secured.secure_hosts, storage_root="file:///nowhere", timings=FAST)

    KazooCoordinator.connect(config).close()


def test_tls_settings_of_a_connection_without_the_switch_are_tls_on_the_wire(secured: SecuredZooKeeper) -> None:
    made = secured.certificates
    extra = {
        "storage_root": "file:///nowhere",
        "tls_ca_file": str(made.authority),
        "tls_cert_file": str(made.client),
        "tls_key_file": str(made.client_key),
        "tls_key_password": KEY_PASSWORD,
    }
    connection = SimpleNamespace(
        conn_id="ha",
        conn_type="spark_ha",
        host="127.0.0.1",
        port=secured.secure_port,
        login=None,
        password=None,
        schema=None,
    )

    config = config_of(connection, extra).model_copy(update={"timings": FAST})

    KazooCoordinator.connect(config).close()


@pytest.mark.parametrize("switch", ["true", "1", "on", True, "", None])
def test_what_switches_tls_on(switch: Any) -> None:
    assert tls_of(switch, {"ca_file": "/ca.pem"}, "tls") == {"ca_file": "/ca.pem"}


@pytest.mark.parametrize("switch", ["false", "0", "off", False])
def test_tls_settings_with_the_switch_off_are_refused(switch: Any) -> None:
    with pytest.raises(ConfigurationError, match="tls is off, but TLS options are given") as caught:
        tls_of(switch, {"ca_file": "/ca.pem"}, "tls")

    assert caught.value.next_step


@pytest.mark.usefixtures("tls_in_environment")
def test_the_environment_switches_nothing_off_that_it_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HA_TLS", "false")

    with pytest.raises(ConfigurationError, match="SPARK_HA_TLS is off"):
        HaConfig.from_env(zookeeper="zk:2181", storage_root="file:///nowhere")


def test_a_switch_that_is_neither_on_nor_off_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="true or false"):
        tls_of("perhaps", {}, "tls")


@pytest.mark.parametrize(
    ("extra", "tls"),
    [
        ({}, False),
        ({"tls_check_hostname": True}, False),  # as the form sends it
        ({"tls": False, "tls_check_hostname": True}, False),
        ({"tls_check_hostname": False}, True),
        ({"tls": "false"}, False),
        ({"tls": True}, True),
        ({"tls_ca_file": "/ca.pem"}, True),
    ],
)
def test_when_a_connection_talks_tls(extra: dict[str, Any], tls: bool) -> None:
    connection = SimpleNamespace(
        conn_id="ha", conn_type="spark_ha", host="zk", port=None, login=None, password=None, schema=None
    )

    config = config_of(connection, {"storage_root": "file:///nowhere", **extra})

    assert (config.tls is not None) is tls


@pytest.mark.parametrize("field", ["digest_auth", "sasl_auth"])
def test_credentials_without_tls_warn_once_and_never_show_the_password(
    secured: SecuredZooKeeper, caplog: pytest.LogCaptureFixture, field: str
) -> None:
    _warn_once.cache_clear()
    config = cluster(secured.hosts, **{field: f"{SASL_USER}:{SASL_PASSWORD}"})

    for _ in range(2):
        make_client(config)

    warnings = [record.getMessage() for record in caplog.records if "without TLS" in record.getMessage()]
    assert len(warnings) == 1
    assert SASL_PASSWORD not in warnings[0]


def test_the_second_credentials_of_a_connection_are_secrets_and_arrive() -> None:
    connection = SimpleNamespace(
        conn_id="ha", conn_type="spark_ha", host="zk", port=None, login="etl", password="new", schema=None
    )
    extra = {"storage_root": "file:///nowhere", "digest_auth_also": "etl:old"}

    also = config_of(connection, extra).digest_auth_also

    assert also is not None
    assert also.get_secret_value() == "etl:old"
    assert {"etl:old", "old", "new"} <= set(secrets_of(connection, extra))


def test_second_credentials_without_first_ones_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="give the first one as digest_auth"):
        HaConfig.build(zookeeper="zk", storage_root="file:///nowhere", digest_auth_also="etl:old")


def test_credentials_with_tls_do_not_warn(secured: SecuredZooKeeper, caplog: pytest.LogCaptureFixture) -> None:
    _warn_once.cache_clear()

    make_client(by_tls(secured, digest_auth=f"user:{DIGEST_PASSWORD}"))

    assert "without TLS" not in caplog.text
