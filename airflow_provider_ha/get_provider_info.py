"""What Airflow is told about this package, through the entry point ``apache_airflow_provider``.

Loaded by every Airflow process: imports nothing. New-style metadata only (``conn-fields``, dashed
``ui-field-behaviour``), so that the connection form is drawn without importing the hook.
"""

from __future__ import annotations

from typing import Any

from airflow_provider_ha._version import __version__


_INTEGRATION = "Spark high availability"
_PACKAGE = "airflow_provider_ha"


def get_provider_info() -> dict[str, Any]:
    """Return the provider's metadata, as ``airflow/provider_info.schema.json`` wants it."""
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
            "stop",
            "cancel",
            "select_checkpoint",
            "plan_restore",
            "verify_checkpoint",
            "restore_drill",
            "recover_jobs",
        ),
        "sensors": _modules("sensors", "leader", "job_status", "checkpoint"),
        "triggers": _modules("triggers", "job", "operation", "leader", "job_status", "checkpoint", "cluster"),
        "connection-types": [
            {
                "connection-type": "spark_ha",
                "hook-class-name": f"{_PACKAGE}.hooks.spark_ha.SparkHaHook",
                "hook-name": "Spark HA",
                "conn-fields": _conn_fields(),
                "ui-field-behaviour": _ui_field_behaviour(),
            }
        ],
        "cli": [f"{_PACKAGE}.cli.airflow_commands.get_ha_cli_commands"],
    }


def _modules(folder: str, *names: str) -> list[dict[str, Any]]:
    return [{"integration-name": _INTEGRATION, "python-modules": [f"{_PACKAGE}.{folder}.{name}" for name in names]}]


def _text(label: str, description: str, **schema: Any) -> dict[str, Any]:
    return {"label": label, "description": description, "schema": {"type": ["string", "null"], **schema}}


def _flag(label: str, description: str, *, default: bool) -> dict[str, Any]:
    return {"label": label, "description": description, "schema": {"type": ["boolean", "null"], "default": default}}


def _conn_fields() -> dict[str, Any]:
    return {
        "storage_root": _text(
            "Storage root", "Where graphs and checkpoints lie: file:///shared/ha or s3://bucket/prefix"
        ),
        "cluster_id": _text("Cluster id", "Namespace of the jobs: one environment in one site", default="default"),
        "root": _text("Root node", "Root znode of all clusters", default="spark-ha"),
        "work_root": _text("Work root", "file:// URI of working directories; needed beside an s3:// storage root"),
        "s3_endpoint_url": _text("S3 endpoint", "Empty for AWS itself"),
        "s3_region": _text("S3 region", "Empty for us-east-1"),
        "s3_access_key": _text("S3 access key", "Empty: boto3's own chain of credentials"),
        "s3_secret_key": _text("S3 secret key", "Empty: boto3's own chain of credentials", format="password"),
        "session_timeout": {
            "label": "Session timeout",
            "description": "Seconds after which ZooKeeper gives the lock of a silent leader away",
            "schema": {"type": ["number", "null"], "default": 10},
        },
        "tolerate_suspended": _flag(
            "Tolerate interruptions", "Off: a leader gives up at once when its connection is interrupted", default=True
        ),
        "chroot": _text("Chroot", "Node of the ensemble that everything lies below, /prod; it must exist"),
        "auth_scheme": _text(
            "Login is for", "digest (ZooKeeper's own) or sasl (DIGEST-MD5)", enum=["digest", "sasl"], default="digest"
        ),
        "digest_auth_also": _text(
            "Second credentials", "user:password of a digest, while the password is changed", format="password"
        ),
        "tls": _flag("TLS", "Talk to ZooKeeper by TLS", default=False),
        "tls_ca_file": _text("TLS authorities", "PEM file with who may have signed the servers' certificates"),
        "tls_cert_file": _text("TLS certificate", "PEM file with our certificate, for mutual TLS"),
        "tls_key_file": _text("TLS key", "PEM file with its key"),
        "tls_key_password": _text("TLS key password", "Password of the key file", format="password"),
        "tls_check_hostname": _flag("TLS host names", "Certificates must be for the host's name", default=True),
    }


def _ui_field_behaviour() -> dict[str, Any]:
    return {
        "hidden-fields": ["schema", "extra"],
        "relabeling": {"host": "ZooKeeper hosts", "login": "ZooKeeper user", "password": "ZooKeeper password"},
        "placeholders": {
            "host": "zk1:2181,zk2:2181,zk3:2181",
            "port": "2181",
            "storage_root": "file:///shared/spark-ha",
        },
    }
