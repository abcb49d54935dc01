"""Airflow connections: form and configuration of type ``spark_ha``, and place of the drivers from type ``spark``.

Invariant: Airflow's secret masker knows every secret of the connection before any code can log it.

For Airflow 3.0 and 3.1 this module builds the form from the table that later releases read as metadata
(``get_provider_info``). Those releases also group the fields in sections; here the fields keep the order of the table.
Airflow no longer depends on wtforms. Release 3.1 substitutes its own fields; 3.0 omits the fields if wtforms is not
installed, and their values then go into *Extra*, as JSON.

The fields of type ``spark`` have the meaning that the Spark provider gives them: host and port are the master,
``deploy-mode`` places the driver in a process of the submitting host (``client``) or on the cluster, ``rest-scheme``
and ``rest-port`` address the REST servers of a standalone cluster. With several masters in Host, all masters are
queried.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from airflow_provider_ha.airflow_side.compat.sdk import AirflowNotFoundException, BaseHook
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.connection_groups import tls_of
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.get_provider_info import get_provider_info
from airflow_provider_ha.host.engines.table import entry_of_cluster, options_of_connection
from airflow_provider_ha.jobs.options.job_spec import SparkPlace
from airflow_provider_ha.timings import Timings


def form_widgets() -> dict[str, Any]:
    """Return a wtforms field for each extra field of the connection."""
    return {name: _widget(field) for name, field in _connection_type()["conn-fields"].items()}


def field_behaviour() -> dict[str, Any]:
    """Return the layout of the standard fields; later releases spell these keys with dashes."""
    return {key.replace("-", "_"): value for key, value in _connection_type()["ui-field-behaviour"].items()}


def _connection_type() -> dict[str, Any]:
    found: dict[str, Any] = get_provider_info()["connection-types"][0]
    return found


def _widget(field: Mapping[str, Any]) -> Any:
    # Imported at each call, because Airflow's API server installs its own fields before it calls this.
    import wtforms  # type: ignore[import-untyped]  # noqa: PLC0415  # only these releases need it
    from wtforms import validators  # noqa: PLC0415  # as above

    schema = field["schema"]
    checks = [validators.Optional(), *([validators.any_of(schema["enum"])] if "enum" in schema else [])]
    kinds = {
        "boolean": wtforms.BooleanField,
        "integer": wtforms.IntegerField,
        "number": wtforms.IntegerField,  # Airflow has no substitute for a field with fractions
        "string": wtforms.StringField,
    }
    kind = wtforms.PasswordField if schema.get("format") == "password" else kinds[schema["type"][0]]
    return kind(field["label"], validators=checks, description=field["description"], default=schema.get("default"))


class SparkConnection(Protocol):
    """Fields of an Airflow connection from which the place of the drivers is read."""

    conn_id: str
    conn_type: str | None
    host: str | None
    port: int | None


def read_place(spark_conn_id: str) -> SparkPlace:
    """Return the place of the drivers for a connection of type ``spark``.

    :raises ConfigurationError: The connection does not exist, or as in :func:`place_of`.
    """
    try:
        connection = BaseHook.get_connection(spark_conn_id)
    except AirflowNotFoundException:
        raise ConfigurationError(
            f"there is no connection {spark_conn_id!r}", next_step="Choose a connection of `airflow connections list`"
        ) from None
    return place_of(connection, connection.extra_dejson)


def place_of(connection: SparkConnection, extra: Mapping[str, Any]) -> SparkPlace:
    """Return the place of the drivers that a connection describes. Pure.

    :param extra: Extra fields of the connection, decoded.
    :raises ConfigurationError: It names no master, or a cluster without an engine in this package.
    """
    if not connection.host:
        raise ConfigurationError(
            f"connection {connection.conn_id!r} names no Spark master",
            next_step="Fill in Host, for example spark://host1:7077,host2:7077",
        )
    master = _master(connection)
    if extra.get("deploy-mode") != "cluster":
        return SparkPlace(master=master)
    try:
        entry = entry_of_cluster(master)
    except ConfigurationError as error:
        raise ConfigurationError(
            f"connection {connection.conn_id!r} cannot be used: {error.message}", next_step=error.next_step
        ) from None
    return SparkPlace(master=master, engine=entry.name, engine_options=options_of_connection(entry, extra))


def _master(connection: SparkConnection) -> str:
    host = connection.host or ""
    # In a URI the scheme is the connection's type; the form has the whole URL in Host.
    kind = connection.conn_type or "spark"
    master = host if kind == "spark" and ("://" in host or not connection.port) else f"{kind}://{host}"
    return f"{master}:{connection.port}" if connection.port else master


CONN_TYPE = "spark_ha"
DEFAULT_PORT = 2181  # ZooKeeper's default

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
_SASL = "sasl"  # the scheme that uses login and password; the alternative is digest


class ConnectionFields(Protocol):
    """Fields of an Airflow connection from which the configuration is read."""

    conn_id: str
    conn_type: str | None
    host: str | None
    schema: str | None
    port: int | None
    login: str | None
    password: str | None


def config_of(connection: ConnectionFields, extra: Mapping[str, Any]) -> HaConfig:
    """Build the configuration that a connection describes.

    :param connection: Host (ZooKeeper servers, comma-separated), schema (the storage root), port, login and password.
    :param extra: Extra fields of the connection, decoded. They may hold the storage root instead.
    :raises ConfigurationError: A value is missing or invalid; names the connection and the field.
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
    """Return the values that must never reach a log."""
    named = (extra.get(name) for name in ("s3_access_key", "s3_secret_key", "tls_key_password"))
    also = extra.get("digest_auth_also")
    values = (connection.password, *named, also, str(also or "").partition(":")[2])
    return [str(value) for value in values if value]


def _hosts(host: str, port: int | None) -> str:
    """Add the connection's port to every server without a port: ``zk1,zk2`` with port 2181 sets both."""
    names, slash, chroot = host.partition("/")
    servers = [server.strip() for server in names.split(",") if server.strip()]
    hosts = ",".join(server if ":" in server else f"{server}:{port or DEFAULT_PORT}" for server in servers)
    return hosts + slash + chroot


def _given(extra: Mapping[str, Any], fields: Mapping[str, str]) -> dict[str, Any]:
    return {field: extra[name] for name, field in fields.items() if extra.get(name) not in (None, "")}


def _storage_root(connection: ConnectionFields, extra: Mapping[str, Any]) -> str | None:
    """Return the storage root, a standard field of the form, because it is required and these are always visible."""
    shown = connection.schema if "://" in (connection.schema or "") else None  # a connection URI has a path here
    named: str | None = extra.get("storage_root") or None
    if shown and named and shown.rstrip("/") != named.rstrip("/"):
        raise ConfigurationError(
            f"connection {connection.conn_id!r} has two storage roots: {shown!r} in its field Storage root (schema), "
            f"{named!r} as storage_root in its extra fields",
            next_step="Keep only one value",
        )
    return named or shown or connection.schema


def _s3(extra: Mapping[str, Any]) -> dict[str, Any] | None:
    settings = _given(extra, _S3_FIELDS)
    # The default of the form alone sets nothing: boto3 and the environment then decide, as without a connection.
    return settings if settings and settings != {"path_style": True} else None


def _tls(extra: Mapping[str, Any]) -> dict[str, Any] | None:
    settings = _given(extra, _TLS_FIELDS)
    if settings.keys() == {"check_hostname"} and extra.get("tls") in (None, "") and settings["check_hostname"] is True:
        return None  # the default of the form
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
