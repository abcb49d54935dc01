"""Groups of options of a connection: TLS to ZooKeeper, S3, HDFS, retention. ``config`` has the whole connection."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)

from airflow_provider_ha.errors import ConfigurationError


TLS_SWITCH = "SPARK_HA_TLS"
TLS_ENV = {
    "ca_file": "SPARK_HA_TLS_CA_FILE",
    "cert_file": "SPARK_HA_TLS_CERT_FILE",
    "key_file": "SPARK_HA_TLS_KEY_FILE",
    "key_password": "SPARK_HA_TLS_KEY_PASSWORD",
    "check_hostname": "SPARK_HA_TLS_CHECK_HOSTNAME",
}
HDFS_ENV = {
    "namenodes": "SPARK_HA_HDFS_NAMENODES",
    "user": "SPARK_HA_HDFS_USER",
    "ca_file": "SPARK_HA_HDFS_CA_FILE",
}
RETENTION_ENV = {"runs": "SPARK_HA_RETAINED_RUNS", "days": "SPARK_HA_RETAINED_DAYS"}
TIMINGS_ENV = {
    "session_timeout": "SPARK_HA_SESSION_TIMEOUT",
    "tolerate_suspended": "SPARK_HA_TOLERATE_SUSPENDED",
}


class TlsOptions(BaseModel):
    """TLS for the connection to ZooKeeper. Paths of PEM files on the connecting host.

    :param ca_file: Only certificates that may have signed the servers' certificates; by default the system's.
    :param cert_file: Client certificate, for servers that require one (mutual TLS).
    :param key_file: Private key of the client certificate.
    :param key_password: Password of the key.
    :param check_hostname: Require the server's certificate to match the name that was used to connect.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    key_password: SecretStr | None = None
    check_hostname: bool = True

    @model_validator(mode="after")
    def _pair(self) -> TlsOptions:
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("a certificate and its key go together; name cert_file and key_file, or neither")
        return self

    def check_files(self) -> None:
        """Check that every file can be read on this host.

        :raises ConfigurationError: A file is unreadable; names the first.
        """
        for field in ("ca_file", "cert_file", "key_file"):
            path = getattr(self, field)
            if path is not None and not os.access(path, os.R_OK):
                raise ConfigurationError(
                    f"{field} {path!r} of the TLS connection to ZooKeeper cannot be read on this host",
                    next_step="Put the file there, readable for the user of this process",
                )


class S3Options(BaseModel):
    """Access to an S3 endpoint; credentials left out come from boto3's own chain."""

    model_config = ConfigDict(frozen=True)

    endpoint_url: str | None = None
    region: str = "us-east-1"
    path_style: bool = True
    access_key: SecretStr | None = None
    secret_key: SecretStr | None = None

    @classmethod
    def from_env(cls) -> S3Options:
        """Return what boto3's variables say, so that a driver, which does not inherit them, has it too.

        Temporary keys stay with this process: they end before a driver does.
        """

        def named(*variables: str) -> str | None:
            return next((value for each in variables if (value := os.environ.get(each))), None)

        values = {
            "endpoint_url": named("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
            "region": named("AWS_REGION", "AWS_DEFAULT_REGION"),
        }
        if named("AWS_SESSION_TOKEN") is None:
            values |= {"access_key": named("AWS_ACCESS_KEY_ID"), "secret_key": named("AWS_SECRET_ACCESS_KEY")}
        return cls.model_validate({field: value for field, value in values.items() if value is not None})


class HdfsOptions(BaseModel):
    """This package's access to HDFS: over WebHDFS, while Spark uses Hadoop's own protocol.

    :param namenodes: URLs of the web servers of all name nodes: ``("http://nn1:9870", "http://nn2:9870")``; as text
        separated by commas. By default port 9870 of the host in the work root. Required for a work root that begins
        with the logical name of a nameservice.
    :param user: Owner of the files: the user of the drivers. By default ``HADOOP_USER_NAME``, else the user of this
        process.
    :param ca_file: PEM file of the authorities that may have signed the certificates of ``https`` servers.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    namenodes: tuple[str, ...] = ()
    user: str | None = None
    ca_file: str | None = None

    @classmethod
    def from_env(cls) -> HdfsOptions:
        """Return the options in ``SPARK_HA_HDFS_*``.

        :raises ConfigurationError: A value is invalid.
        """
        try:
            return cls.model_validate(group_from_env(HDFS_ENV) or {})
        except ValidationError as error:
            reasons = "; ".join(reason_of(item) for item in error.errors(include_url=False, include_input=False))
            raise ConfigurationError(f"SPARK_HA_HDFS_* cannot be used: {reasons}") from None

    @field_validator("namenodes", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        return tuple(filter(None, map(str.strip, value.split(",")))) if isinstance(value, str) else value

    @field_validator("namenodes")
    @classmethod
    def _urls(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for url in value:
            parts = urlsplit(url)
            if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/") or "@" in url:
                raise ValueError(f"name node {url.rpartition('@')[2]!r} is not of the form http://host:9870")
        return value


class Retention(BaseModel):
    """Retention of the records of finished runs. A run is removed if both limits allow it; the newest two always stay.

    :param runs: Number of runs of a job that stay, of any age.
    :param days: Days that a run stays in any case after its end. A task that is retried in this time finds its run.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    # Two: at the end of the previous run, its remains are distinguished from the newest run's.
    runs: int = Field(default=100, ge=2, le=10_000)
    days: float = Field(default=7.0, ge=1, le=3650)


def tls_of(switch: Any, settings: dict[str, Any], name: str) -> dict[str, Any] | None:
    """Return the intended TLS options; ``None`` for an unencrypted connection, which needs an explicit switch.

    :param switch: Switch for TLS, as the user wrote it; empty when it was left out.
    :param settings: Other TLS options.
    :param name: Name of the switch, for the error.
    :raises ConfigurationError: The switch is off although there are options, or it is neither on nor off.
    """
    if switch in (None, ""):
        return settings or None
    try:
        wanted = TypeAdapter(bool).validate_python(switch)
    except ValidationError:
        raise ConfigurationError(f"{name} is {switch!r}", next_step="Write true or false") from None
    if wanted:
        return settings
    meant = sorted(settings.keys() - {"check_hostname"})  # forms set this default
    if meant:
        raise ConfigurationError(
            f"{name} is off, but TLS options are given ({', '.join(meant)}): the connection would be in clear",
            next_step=f"Switch {name} on, or remove the TLS options",
        )
    return None


def group_from_env(names: dict[str, str]) -> dict[str, Any] | None:
    """Return the values that the environment has; ``None`` without any."""
    return {field: os.environ[name] for field, name in names.items() if os.environ.get(name)} or None


def reason_of(item: Any) -> str:
    """Return the sentence about one error of pydantic: its place and its reason."""
    place = ".".join(str(part) for part in item["loc"]) or "the values together"
    return f"{place}: {str(item['msg']).removeprefix('Value error, ')}"
