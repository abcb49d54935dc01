"""From a connection of the Spark provider (type ``spark``) to the place where a job's drivers run.

The fields mean what they mean there: host and port are the master, ``deploy-mode`` says whether the driver is a process
of the host that submits (``client``) or of the cluster, ``rest-scheme`` and ``rest-port`` are where the masters of a
standalone cluster answer. With several masters in Host, all of them are asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from airflow_provider_ha.compat.sdk import AirflowNotFoundException, BaseHook
from airflow_provider_ha.control.job.spec import SparkPlace
from airflow_provider_ha.errors import ConfigurationError


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
    from airflow_provider_ha.engines.registry import engine_of_cluster  # noqa: PLC0415  # brings the engines

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
