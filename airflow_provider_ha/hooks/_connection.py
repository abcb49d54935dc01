"""Connections: form and configuration of type ``spark_ha``, and place of drivers from type ``spark``.

Invariant: every secret of the connection is known to Airflow's masker before anything can log it.

Made from the same table as the metadata that later releases read (``get_provider_info``). Those have sections, too;
here the fields stand in the order of the table. wtforms is not Airflow's own any more. 3.1 stands in for it; 3.0 leaves
the fields out where it is not installed, and then their values go into *Extra*, as JSON.

The fields mean what they mean there: host and port are the master, ``deploy-mode`` says whether the driver is a process
of the host that submits (``client``) or of the cluster, ``rest-scheme`` and ``rest-port`` are where the masters of a
standalone cluster answer. With several masters in Host, all of them are asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from airflow_provider_ha.airflow_side.compat.sdk import AirflowNotFoundException, BaseHook
from airflow_provider_ha.config import HaConfig, tls_of
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.get_provider_info import get_provider_info
from airflow_provider_ha.jobs.options.job_spec import SparkPlace
from airflow_provider_ha.timings import Timings


def form_widgets() -> dict[str, Any]:
    """Return a field of wtforms for each extra field of the connection."""
    return {name: _widget(field) for name, field in _connection_type()["conn-fields"].items()}


def field_behaviour() -> dict[str, Any]:
    """Return how the standard fields look: later releases have dashes in these names."""
    return {key.replace("-", "_"): value for key, value in _connection_type()["ui-field-behaviour"].items()}


def _connection_type() -> dict[str, Any]:
    found: dict[str, Any] = get_provider_info()["connection-types"][0]
    return found


def _widget(field: Mapping[str, Any]) -> Any:
    # At each call: Airflow's API server puts fields in their places before it asks.
    import wtforms  # type: ignore[import-untyped]  # noqa: PLC0415  # only these releases need it
    from wtforms import validators  # noqa: PLC0415  # as above

    schema = field["schema"]
    checks = [validators.Optional(), *([validators.any_of(schema["enum"])] if "enum" in schema else [])]
    kinds = {
        "boolean": wtforms.BooleanField,
        "integer": wtforms.IntegerField,
        "number": wtforms.IntegerField,  # Airflow has no stand-in for a field of fractions
        "string": wtforms.StringField,
    }
    kind = wtforms.PasswordField if schema.get("format") == "password" else kinds[schema["type"][0]]
    return kind(field["label"], validators=checks, description=field["description"], default=schema.get("default"))


_OPTIONS = {"rest-scheme": "rest_scheme", "rest-port": "rest_port"}


class SparkConnection(Protocol):
    """The part of an Airflow connection that is read here."""

    conn_id: str
    conn_type: str | None
    host: str | None
    port: int | None


def read_place(spark_conn_id: str) -> SparkPlace:
    """Read a connection of type ``spark``.

    :raises ConfigurationError: There is no such connection, or as :func:`place_of`.
    """
    try:
        connection = BaseHook.get_connection(spark_conn_id)
    except AirflowNotFoundException:
        raise ConfigurationError(
            f"there is no connection {spark_conn_id!r}", next_step="Name one of `airflow connections list`"
        ) from None
    return place_of(connection, connection.extra_dejson)


def place_of(connection: SparkConnection, extra: Mapping[str, Any]) -> SparkPlace:
    """Return where the drivers run that a connection describes. Pure.

    :param extra: Its extra fields, decoded.
    :raises ConfigurationError: It names no master, or a cluster that has no engine here.
    """
    if not connection.host:
        raise ConfigurationError(
            f"connection {connection.conn_id!r} names no Spark master",
            next_step="Fill in Host, for example spark://host1:7077,host2:7077",
        )
    master = _master(connection)
    if extra.get("deploy-mode") != "cluster":
        return SparkPlace(master=master)
    from airflow_provider_ha.host.engines.registry import engine_of_cluster  # noqa: PLC0415  # brings the engines

    try:
        engine = engine_of_cluster(master)
    except ConfigurationError as error:
        raise ConfigurationError(
            f"connection {connection.conn_id!r} cannot be used: {error.message}", next_step=error.next_step
        ) from None
    options = {name: str(extra[key]) for key, name in _OPTIONS.items() if extra.get(key) not in (None, "")}
    return SparkPlace(master=master, engine=engine, engine_options=options)


def _master(connection: SparkConnection) -> str:
    host = connection.host or ""
    # From a URI the scheme is the type of the connection; the form has the whole URL in Host.
    kind = connection.conn_type or "spark"
    master = host if kind == "spark" and ("://" in host or not connection.port) else f"{kind}://{host}"
    return f"{master}:{connection.port}" if connection.port else master


CONN_TYPE = "spark_ha"
DEFAULT_PORT = 2181  # ZooKeeper's own

_S3_FIELDS = {
    "s3_endpoint_url": "endpoint_url",
    "s3_region": "region",
    "s3_path_style": "path_style",
    "s3_access_key": "access_key",
    "s3_secret_key": "secret_key",
}
_HDFS_FIELDS = {"hdfs_namenodes": "namenodes", "hdfs_user": "user", "hdfs_ca_file": "ca_file"}
_TLS_FIELDS = {
    "tls_ca_file": "ca_file",
    "tls_cert_file": "cert_file",
    "tls_key_file": "key_file",
    "tls_key_password": "key_password",
    "tls_check_hostname": "check_hostname",
}
_PLAIN_FIELDS = (
    "cluster_id",
    "root",
    "work_root",
    "home_root",
    "chroot",
    "digest_auth_also",
    "engines",
    "history_server",
)
_RETENTION_FIELDS = {"retained_runs": "runs", "retained_days": "days"}
_TIMINGS = ("session_timeout", "tolerate_suspended")
_SASL = "sasl"  # what login and password are for; the other is digest


class ConnectionFields(Protocol):
    """The part of an Airflow connection that is read here."""

    conn_id: str
    conn_type: str | None
    host: str | None
    schema: str | None
    port: int | None
    login: str | None
    password: str | None


def config_of(connection: ConnectionFields, extra: Mapping[str, Any]) -> HaConfig:
    """Build the configuration that a connection describes.

    :param connection: Host (one or more ZooKeeper servers, comma-separated), schema (the storage root), port, login
        and password.
    :param extra: Its extra fields, decoded. The storage root may be among them instead.
    :raises ConfigurationError: Something is missing or cannot work; names the connection and the field.
    """
    if connection.conn_type not in (None, "", CONN_TYPE):
        raise ConfigurationError(
            f"connection {connection.conn_id!r} is of type {connection.conn_type!r}, and has to be of type "
            f"{CONN_TYPE!r}",
            next_step="Name a connection of type Spark HA in spark_ha_conn_id",
        )
    storage_root = _storage_root(connection, extra)
    required = (
        (connection.host, "ZooKeeper host", "Host, for example zk1:2181,zk2:2181,zk3:2181"),
        (storage_root, "storage root", "Storage root, for example file:///shared/spark-ha or s3://bucket/prefix"),
    )
    missing = [(what, filled) for value, what, filled in required if not value]
    if not connection.host or not storage_root:
        raise ConfigurationError(
            f"connection {connection.conn_id!r} has no {' and no '.join(what for what, _ in missing)}",
            next_step=f"Fill in {'; and '.join(filled for _, filled in missing)}",
        )
    try:
        return HaConfig.build(
            zookeeper=_hosts(connection.host, connection.port),
            storage_root=storage_root,
            **{_auth_field(extra): _credentials(connection)},
            tls=_tls(extra),
            s3=_s3(extra),
            hdfs=_given(extra, _HDFS_FIELDS) or None,
            timings=_timings(extra),
            retention=_given(extra, _RETENTION_FIELDS) or None,
            **{name: extra.get(name) for name in _PLAIN_FIELDS},
        )
    except ConfigurationError as error:
        raise ConfigurationError(
            f"connection {connection.conn_id!r}: {error.message}", next_step=error.next_step or "Edit the connection"
        ) from error


def secrets_of(connection: ConnectionFields, extra: Mapping[str, Any]) -> list[str]:
    """Return what must never reach a log."""
    named = (extra.get(name) for name in ("s3_access_key", "s3_secret_key", "tls_key_password"))
    also = extra.get("digest_auth_also")
    values = (connection.password, *named, also, str(also or "").partition(":")[2])
    return [str(value) for value in values if value]


def _hosts(host: str, port: int | None) -> str:
    """Give every server without a port the connection's, so that ``zk1,zk2`` with port 2181 means both."""
    names, slash, chroot = host.partition("/")
    servers = [server.strip() for server in names.split(",") if server.strip()]
    hosts = ",".join(server if ":" in server else f"{server}:{port or DEFAULT_PORT}" for server in servers)
    return hosts + slash + chroot


def _given(extra: Mapping[str, Any], fields: Mapping[str, str]) -> dict[str, Any]:
    return {field: extra[name] for name, field in fields.items() if extra.get(name) not in (None, "")}


def _storage_root(connection: ConnectionFields, extra: Mapping[str, Any]) -> str | None:
    """Return the storage root: a standard field of the form, because it is required and those are open at once."""
    shown = connection.schema if "://" in (connection.schema or "") else None  # the path of a connection URI is none
    named: str | None = extra.get("storage_root") or None
    if shown and named and shown.rstrip("/") != named.rstrip("/"):
        raise ConfigurationError(
            f"connection {connection.conn_id!r} has two storage roots: {shown!r} in its field Storage root (schema), "
            f"{named!r} as storage_root in its extra fields",
            next_step="Remove one of them",
        )
    return named or shown or connection.schema


def _s3(extra: Mapping[str, Any]) -> dict[str, Any] | None:
    settings = _given(extra, _S3_FIELDS)
    # The form's own default alone says nothing: then boto3 and the environment are asked, as without a connection.
    return settings if settings and settings != {"path_style": True} else None


def _tls(extra: Mapping[str, Any]) -> dict[str, Any] | None:
    settings = _given(extra, _TLS_FIELDS)
    if settings.keys() == {"check_hostname"} and extra.get("tls") in (None, "") and settings["check_hostname"] is True:
        return None  # the form's own default
    return tls_of(extra.get("tls"), settings, "tls")


def _auth_field(extra: Mapping[str, Any]) -> str:
    return "sasl_auth" if extra.get("auth_scheme") == _SASL else "digest_auth"


def _credentials(connection: ConnectionFields) -> str | None:
    if not connection.login and not connection.password:
        return None
    if not connection.login or not connection.password:
        raise ConfigurationError("login and password go together", next_step="Fill in both, or neither")
    return f"{connection.login}:{connection.password}"


def _timings(extra: Mapping[str, Any]) -> Timings | dict[str, Any] | None:
    return _given(extra, {name: name for name in _TIMINGS}) or None
