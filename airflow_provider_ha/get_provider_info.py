"""Metadata of this package for Airflow, through the entry point ``apache_airflow_provider``.

Loaded by every Airflow process, so it imports nothing. From Airflow 3.2 on, Airflow draws the connection form from this
metadata (``conn-fields``, dashed ``ui-field-behaviour``) without importing the hook; for 3.0 and 3.1
``hooks._connection`` builds the form from the same table.
"""

from __future__ import annotations

from typing import Any

from airflow_provider_ha._version import __version__


_INTEGRATION = "Spark high availability"
_PACKAGE = "airflow_provider_ha"
_CLUSTER, _S3, _HDFS, _ZOOKEEPER, _TLS = (
    "Cluster",
    "S3",
    "HDFS",
    "ZooKeeper",
    "TLS to ZooKeeper",
)  # sections of the connection form


def get_provider_info() -> dict[str, Any]:
    """Return the provider's metadata, as required by ``airflow/provider_info.schema.json``."""
    return {
        "package-name": "airflow-provider-ha",
        "name": _INTEGRATION,
        "description": "High availability for Spark Structured Streaming jobs, driven by Airflow.",
        "versions": [__version__],
        "integrations": [{"integration-name": _INTEGRATION, "external-doc-url": "", "tags": ["software"]}],
        "hooks": _modules("hooks", "spark_ha"),
        "operators": _modules(
            "operators",
            "submit",
            "restore",
            "follow",
            "savepoint",
            "checkpoint",
            "stop",
            "cancel",
            "hand_over",
            "delete_job",
            "move",
            "select_checkpoint",
            "plan_restore",
            "verify_checkpoint",
            "restore_drill",
            "recover_jobs",
        ),
        "sensors": _modules("sensors", "leader", "job_status", "checkpoint"),
        "triggers": _modules("triggers", "job", "operation", "live_fact", "cluster"),
        "connection-types": [
            {
                "connection-type": "spark_ha",
                "hook-class-name": f"{_PACKAGE}.hooks.spark_ha.SparkHaHook",
                "hook-name": "Spark HA",
                "conn-fields": _conn_fields(),
                "ui-field-behaviour": _ui_field_behaviour(),
            }
        ],
        "notifications": [f"{_PACKAGE}.airflow_side.notifications.SparkHaNotifier"],
        "extra-links": [
            f"{_PACKAGE}.airflow_side.links.{name}"
            for name in ("SparkHaJobLink", "SparkHaJobsLink", "SparkHaDriverLogLink", "SparkHaSparkUiLink")
        ],
        "config": _config(),
        "cli": [f"{_PACKAGE}.cli.airflow_commands.get_ha_cli_commands"],
    }


def _modules(folder: str, *names: str) -> list[dict[str, Any]]:
    return [{"integration-name": _INTEGRATION, "python-modules": [f"{_PACKAGE}.{folder}.{name}" for name in names]}]


def _config() -> dict[str, Any]:
    """Return the options of ``airflow.cfg``: which DAGs the page triggers."""
    dags = {
        "restore_dag": ("disaster_recovery", "restores a job; it has the parameters of the DAG disaster_recovery"),
        "recover_dag": ("recover_jobs", "recovers one job; it has the parameters of the DAG recover_jobs"),
    }
    options = {
        name: {
            "description": f"Id of the DAG that the page Spark HA triggers, which {what}.",
            "version_added": __version__,
            "type": "string",
            "example": None,
            "default": default,
        }
        for name, (default, what) in dags.items()
    }
    return {"spark_ha": {"description": "The page Spark HA.", "options": options}}


def _text(section: str, label: str, description: str, **schema: Any) -> dict[str, Any]:
    return _field(section, label, description, type=["string", "null"], **schema)


def _flag(section: str, label: str, description: str, *, default: bool) -> dict[str, Any]:
    return _field(section, label, description, type=["boolean", "null"], default=default)


def _field(section: str, label: str, description: str, **schema: Any) -> dict[str, Any]:
    """Return a field of the form, which shows each *section* below the standard fields, in the order of the fields."""
    return {"label": label, "description": description, "schema": {**schema, "section": section}}


def _conn_fields() -> dict[str, Any]:
    return _cluster_fields() | _s3_fields() | _hdfs_fields() | _zookeeper_fields() | _tls_fields()


def _cluster_fields() -> dict[str, Any]:
    return {
        "work_root": _text(
            _CLUSTER,
            "Work root",
            "file://, s3:// or hdfs:// URI of working directories; required for an s3:// storage root",
        ),
        "cluster_id": _text(
            _CLUSTER, "Cluster id", "Namespace of the jobs: one environment in one site", default="default"
        ),
        "root": _text(_CLUSTER, "Root node", "Root znode of all clusters", default="spark-ha"),
        "home_root": _text(
            _CLUSTER,
            "Home root",
            "file:// URI of the drivers' files on their host; required for an s3:// or hdfs:// work root",
        ),
        "engines": _text(
            _CLUSTER,
            "Engine options",
            'JSON with options of engines for all jobs: {"<engine>": {"<option>": "<value>"}}',
        ),
        "history_server": _text(
            _CLUSTER,
            "History server",
            "URL of Spark's history server, http://history:18080, for links of ended drivers",
        ),
        "retained_runs": _field(
            _CLUSTER,
            "Retained runs",
            "How many runs of a job stay known, of any age",
            type=["integer", "null"],
            default=100,
            minimum=2,
        ),
        "retained_days": _field(
            _CLUSTER,
            "Retained days",
            "Minimum time for which an ended run stays known: longer than the last retry of its task may take",
            type=["number", "null"],
            default=7,
            minimum=1,
        ),
    }


def _s3_fields() -> dict[str, Any]:
    return {
        "s3_endpoint_url": _text(_S3, "S3 endpoint", "Empty for AWS itself"),
        "s3_region": _text(_S3, "S3 region", "Empty for us-east-1"),
        "s3_path_style": _flag(
            _S3, "S3 path style", "On: http://host/bucket/key; off: the bucket may be a part of the host", default=True
        ),
        "s3_access_key": _text(_S3, "S3 access key", "Empty: boto3's own chain of credentials"),
        "s3_secret_key": _text(_S3, "S3 secret key", "Empty: boto3's own chain of credentials", format="password"),
    }


def _hdfs_fields() -> dict[str, Any]:
    return {
        "hdfs_namenodes": _text(
            _HDFS, "HDFS name nodes", "http://nn1:9870,http://nn2:9870; empty: port 9870 of the host in the work root"
        ),
        "hdfs_user": _text(
            _HDFS, "HDFS user", "Owner of the files: the user of the drivers; empty: that of the process"
        ),
        "hdfs_ca_file": _text(_HDFS, "HDFS authorities", "PEM file with the authorities of https name nodes"),
    }


def _zookeeper_fields() -> dict[str, Any]:
    return {
        "session_timeout": _field(
            _ZOOKEEPER,
            "Session timeout",
            "Seconds after which ZooKeeper releases the lock of a silent leader",
            type=["number", "null"],
            default=10,
        ),
        "tolerate_suspended": _flag(
            _ZOOKEEPER,
            "Tolerate interruptions",
            "Off: a leader gives up immediately when its connection is interrupted",
            default=True,
        ),
        "chroot": _text(_ZOOKEEPER, "Chroot", "Node of the ensemble that contains all others, /prod; it must exist"),
        "auth_scheme": _text(
            _ZOOKEEPER,
            "Login is for",
            "digest (ZooKeeper's own) or sasl (DIGEST-MD5)",
            enum=["digest", "sasl"],
            default="digest",
        ),
        "digest_auth_also": _text(
            _ZOOKEEPER,
            "Second credentials",
            "user:password of a digest, while the password is changed",
            format="password",
        ),
    }


def _tls_fields() -> dict[str, Any]:
    return {
        "tls": _flag(_TLS, "TLS", "Connect to ZooKeeper with TLS", default=False),
        "tls_ca_file": _text(_TLS, "TLS authorities", "PEM file with the authorities of the servers' certificates"),
        "tls_cert_file": _text(_TLS, "TLS certificate", "PEM file with our certificate, for mutual TLS"),
        "tls_key_file": _text(_TLS, "TLS key", "PEM file with its key"),
        "tls_key_password": _text(_TLS, "TLS key password", "Password of the key file", format="password"),
        "tls_check_hostname": _flag(_TLS, "TLS host names", "Certificates must be for the host's name", default=True),
    }


def _ui_field_behaviour() -> dict[str, Any]:
    """Return the appearance of the standard fields. Only they are visible initially, including the required ones."""
    return {
        "hidden-fields": ["port", "extra"],  # each host may have its own port
        "relabeling": {
            "host": "ZooKeeper hosts (required)",
            "schema": "Storage root (required)",
            "login": "ZooKeeper user",
            "password": "ZooKeeper password",
        },
        "placeholders": {
            "host": "zk1:2181,zk2:2181,zk3:2181",
            "schema": "file:///shared/spark-ha or s3://bucket/prefix",
            "login": "empty: nodes without protection",
        },
    }
