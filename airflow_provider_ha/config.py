"""Access to a cluster: ZooKeeper, storage, timings. Validated once, then passed around as a value."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    ConfigDict,
    SecretStr,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from airflow_provider_ha.connection_groups import (
    HDFS_ENV,
    RETENTION_ENV,
    TIMINGS_ENV,
    TLS_ENV,
    TLS_SWITCH,
    HdfsOptions,
    Retention,
    S3Options,
    TlsOptions,
    group_from_env,
    reason_of,
    tls_of,
)
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.names import check_name
from airflow_provider_ha.timings import Timings
from airflow_provider_ha.uris import refusal_of, split


__all__ = ["HaConfig", "HdfsOptions", "Retention", "S3Options", "Timings", "TlsOptions"]


ENVIRONMENT = {  # field -> variable
    "zookeeper": "SPARK_HA_ZOOKEEPER",
    "storage_root": "SPARK_HA_STORAGE_ROOT",
    "cluster_id": "SPARK_HA_CLUSTER_ID",
    "root": "SPARK_HA_ROOT",
    "work_root": "SPARK_HA_WORK_ROOT",
    "home_root": "SPARK_HA_HOME_ROOT",
    "chroot": "SPARK_HA_CHROOT",
    "digest_auth": "SPARK_HA_DIGEST_AUTH",
    "digest_auth_also": "SPARK_HA_DIGEST_AUTH_ALSO",
    "sasl_auth": "SPARK_HA_SASL_AUTH",
    "engines": "SPARK_HA_ENGINES",
    "history_server": "SPARK_HA_HISTORY_SERVER",
}


class HaConfig(BaseModel):
    """Cluster and its access. Roots are read literally (``uris``): they have no escapes.

    :param zookeeper: Hosts of the ensemble: ``"zk1:2181,zk2:2181"``; a chroot may follow: ``"zk1:2181,zk2:2181/prod"``.
    :param storage_root: URI of blobs, graphs and records: ``file:///shared/ha`` or ``s3://bucket/prefix``.
    :param cluster_id: Namespace of the jobs; usually one environment in one site.
    :param root: Root znode of all clusters.
    :param work_root: URI of working directories, pins and savepoints; only needed when *storage_root* is no file URI.
        On ``s3://`` it has a separate prefix; on ``s3://`` and ``hdfs://namenode:8020/path`` *home_root* is needed.
    :param home_root: ``file:`` URI of the drivers' files on their host, logs and downloaded files; by default the work
        root.
    :param chroot: Node of the ensemble that contains all others, ``/prod``; it must exist.
    :param digest_auth: ``user:password`` for ZooKeeper; when given, it protects every node.
    :param digest_auth_also: A second ``user:password`` in addition to *digest_auth*, while a password is changed: the
        session has both, and both protect every node.
    :param sasl_auth: ``user:password`` for SASL (DIGEST-MD5); when given, it protects every node.
    :param tls: When given, the connection to ZooKeeper uses only TLS.
    :param s3: Options for ``s3://`` roots.
    :param hdfs: Options for an ``hdfs://`` work root.
    :param engines: Options of engines for all jobs, as JSON ``{"<engine>": {"<option>": "<value>"}}``.
        A job's own ``engine_options`` win.
    :param history_server: URL of Spark's history server, ``http://history:18080``, the target of ended drivers' links.
        Its content depends on the event logs of the jobs (``spark.eventLog.enabled``).
    :param retention: Retention of the records of finished runs.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    zookeeper: str
    storage_root: str
    cluster_id: str = "default"
    root: str = "spark-ha"
    work_root: str | None = None
    home_root: str | None = None
    chroot: str | None = None
    digest_auth: SecretStr | None = None
    digest_auth_also: SecretStr | None = None
    sasl_auth: SecretStr | None = None
    tls: TlsOptions | None = None
    s3: S3Options | None = None
    hdfs: HdfsOptions | None = None
    timings: Timings = Timings()
    retention: Retention = Retention()
    engines: dict[str, dict[str, str]] = {}
    history_server: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _split_chroot(cls, values: Any) -> Any:
        """Split the chroot off the hosts, so that these are only servers everywhere in the code."""
        if not isinstance(values, dict) or "/" not in str(values.get("zookeeper", "")):
            return values
        hosts, _, path = str(values["zookeeper"]).partition("/")
        suffix, chroot = "/" + path.strip("/"), values.get("chroot")
        if chroot not in (None, "", suffix):
            raise ValueError(
                f"the hosts end with {suffix!r}, but the chroot is {chroot!r}; give the chroot only in one place"
            )
        return {**values, "zookeeper": hosts, "chroot": suffix}

    @field_validator("chroot")
    @classmethod
    def _chroot(cls, value: str | None) -> str | None:
        names = [name for name in (value or "").split("/") if name]
        if value is not None and not value.startswith("/"):
            raise ValueError(f"chroot {value!r} does not begin with a slash; write /prod")
        return "/" + "/".join(check_name(name, "part of the chroot") for name in names) if names else None

    @field_validator("digest_auth", "digest_auth_also", "sasl_auth")
    @classmethod
    def _credentials(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not all(value.get_secret_value().partition(":")):
            raise ValueError("credentials are of the form user:password")
        return value

    @field_validator("zookeeper")
    @classmethod
    def _hosts(cls, value: str) -> str:
        hosts = [host.strip() for host in value.split(",") if host.strip()]
        if not hosts:
            raise ValueError("no ZooKeeper host is named; write host:port,host:port")
        for host in hosts:
            _, _, port = host.rpartition(":")
            if "/" in host or (":" in host and not port.isdigit()):
                raise ValueError(f"ZooKeeper host {host!r} is not of the form host:port")
        return ",".join(hosts)

    @field_validator("history_server")
    @classmethod
    def _web_page(cls, value: str | None) -> str | None:
        parts = urlsplit(value or "")
        if value is not None and (parts.scheme not in ("http", "https") or not parts.hostname or parts.password):
            raise ValueError("the history server is not of the form http://host:18080, without a password")
        return value.rstrip("/") if value else None

    @field_validator("storage_root", "work_root", "home_root")
    @classmethod
    def _uri(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is None:
            return None
        parts = split(value)
        is_work = info.field_name == "work_root"
        if parts.scheme == "hdfs" and not is_work:
            raise ValueError(
                f"{value!r} is on HDFS, which is for work_root only; write file:///path or s3://bucket/prefix"
            )
        if parts.scheme not in ("file", "s3", "hdfs"):
            raise ValueError(
                f"storage URI {value!r} has no scheme that is known; write file:///path or s3://bucket/prefix"
                + (" or hdfs://namenode:8020/path" if is_work else "")
            )
        if parts.scheme == "hdfs" and (not urlsplit(f"//{parts.authority}").hostname or not parts.path.strip("/")):
            raise ValueError(f"storage URI {value!r} names no name node and path; write hdfs://namenode:8020/path")
        if parts.scheme == "file" and not parts.path.startswith("/"):
            raise ValueError(f"storage URI {value!r} has no absolute path; write file:///path")
        if parts.scheme == "s3" and not parts.authority:
            raise ValueError(f"storage URI {value!r} names no bucket; write s3://bucket/prefix")
        if (refusal := refusal_of(parts)) is not None:
            raise ValueError(f"storage URI {value!r} {refusal}")
        return value.rstrip("/")

    @field_validator("engines", mode="before")
    @classmethod
    def _engines(cls, value: Any) -> Any:
        """Also accept the text of a form field or of a variable."""
        if not isinstance(value, str):
            return value
        try:
            return TypeAdapter(dict[str, dict[str, str]]).validate_json(value)
        except ValidationError:
            raise ValueError('it is not JSON of the form {"<engine>": {"<option>": "<value>"}}') from None

    @field_validator("cluster_id")
    @classmethod
    def _cluster(cls, value: str) -> str:
        return check_name(value, "cluster id")

    @model_validator(mode="after")
    def _consistent(self) -> HaConfig:
        self._check_roots()
        if self.digest_auth_also is not None and self.digest_auth is None:
            raise ValueError("digest_auth_also is for a second password; give the first one as digest_auth")
        self.timings.tolerated_cut(len(self.zookeeper.split(",")))
        return self

    def _check_roots(self) -> None:
        storage, work = self.storage_root, self.work_root
        if work is None and not storage.startswith("file:"):
            raise ValueError(
                "there is no place for working directories; an s3:// storage root needs a work_root: a file:// URI, an "
                "hdfs:// URI, or an s3:// URI with a separate prefix"
            )
        if work is not None and not work.startswith("file:") and _overlap(storage, work):
            raise ValueError(f"work_root {work!r} and storage_root {storage!r} are nested; give each a separate prefix")
        home = self.home_root or work or storage
        if not home.startswith("file:"):
            raise ValueError(
                "a driver keeps logs and files on its host; give home_root as a file:// URI for an s3:// or "
                "hdfs:// work_root"
            )

    def __hash__(self) -> int:
        """Hash of the identifying fields of a cluster; options of engines are mappings, which have no hash."""
        return hash((self.zookeeper, self.storage_root, self.cluster_id))

    @property
    def work_uri(self) -> str:
        """URI of working directories, pins and savepoints of this cluster."""
        return f"{self.work_root or self.storage_root}/{self.cluster_id}"

    @property
    def work_path(self) -> Path:
        """Directory of :attr:`work_uri` on this host; meaningful only for a ``file:`` URI."""
        return Path(split(self.work_uri).path)

    @property
    def home_path(self) -> Path:
        """Directory of a driver's files on its host: logs, downloaded files. Other hosts need not see it."""
        if self.home_root is None:
            return self.work_path
        return Path(split(self.home_root).path) / self.cluster_id

    @classmethod
    def build(cls, **values: Any) -> HaConfig:
        """Validate *values*.

        :raises ConfigurationError: With one sentence per value that cannot work; never pydantic's own error.
        """
        try:
            return cls.model_validate({key: value for key, value in values.items() if value not in (None, "")})
        except ValidationError as error:
            reasons = "; ".join(reason_of(item) for item in error.errors(include_url=False, include_input=False))
            raise ConfigurationError(f"the connection to the HA cluster cannot be used: {reasons}") from None

    @classmethod
    def from_env(cls, **overrides: Any) -> HaConfig:
        """Read ``SPARK_HA_*`` from the environment; *overrides* that are not ``None`` take precedence.

        :raises ConfigurationError: A required value is missing, or a value is invalid.
        """
        values: dict[str, Any] = {field: os.environ.get(name) for field, name in ENVIRONMENT.items()}
        values["tls"] = tls_of(os.environ.get(TLS_SWITCH), group_from_env(TLS_ENV) or {}, TLS_SWITCH)
        values["timings"] = group_from_env(TIMINGS_ENV)
        values["hdfs"] = group_from_env(HDFS_ENV)
        values["retention"] = group_from_env(RETENTION_ENV)
        values |= {field: value for field, value in overrides.items() if value is not None}
        if any(str(values.get(root) or "").startswith("s3:") for root in ("storage_root", "work_root")):
            values.setdefault("s3", S3Options.from_env())
        if missing := [field for field in ("zookeeper", "storage_root") if not values.get(field)]:
            ways = (f"{ENVIRONMENT[field]} or give --{field.replace('_', '-')}" for field in missing)
            raise ConfigurationError(
                f"{' and '.join(missing)} {'are' if len(missing) > 1 else 'is'} not set",
                next_step=f"Set {'; and set '.join(ways)}",
            )
        return cls.build(**values)

    @classmethod
    def from_file(cls, path: Path) -> HaConfig:
        """Read the JSON of :meth:`to_private_json`. Messages never hold the content, because it is secret.

        :raises ConfigurationError: The file cannot be read, others may read it, or it is no configuration.
        """
        try:
            if path.stat().st_mode & 0o077:
                raise ConfigurationError(
                    f"users other than its owner may read or write {str(path)!r}, which holds secrets",
                    next_step=f"chmod 600 {path}",
                )
            return cls.model_validate_json(path.read_bytes())
        except OSError as error:
            raise ConfigurationError(f"the configuration {str(path)!r} cannot be read ({error.strerror})") from error
        except ValidationError as error:
            reasons = "; ".join(reason_of(item) for item in error.errors(include_url=False, include_input=False))
            raise ConfigurationError(f"the configuration {str(path)!r} cannot be used: {reasons}") from None

    def to_private_json(self) -> str:
        """Return the JSON with its secrets in clear, for a file that only its owner can read."""

        def reveal(value: Any) -> Any:
            if isinstance(value, SecretStr):
                return value.get_secret_value()
            if isinstance(value, dict):
                return {key: reveal(item) for key, item in value.items()}
            return value

        import json  # noqa: PLC0415  # one use

        return json.dumps(reveal(self.model_dump(mode="python")))


def _overlap(one: str, other: str) -> bool:
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")


VARIABLES = frozenset(
    {
        *ENVIRONMENT.values(),
        TLS_SWITCH,
        *TLS_ENV.values(),
        *TIMINGS_ENV.values(),
        *HDFS_ENV.values(),
        *RETENTION_ENV.values(),
    }
)
"""Variables that :meth:`HaConfig.from_env` reads. Some hold secrets."""
