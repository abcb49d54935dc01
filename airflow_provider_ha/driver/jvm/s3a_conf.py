"""Hadoop's conf for the bucket that jobs work in: the connection's settings, for this bucket only.

Other reads and writes of a script keep the conf of its user, with other endpoints and other keys. The conf holds
secrets: the driver sets it in its JVM, and Spark's own RPC brings it to the executors. It is on no disk.
"""

from __future__ import annotations

from airflow_provider_ha.config import HaConfig, S3Options
from airflow_provider_ha.uris import split


SIMPLE_CREDENTIALS = "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"


def s3a_conf(config: HaConfig) -> dict[str, str]:
    """Return Spark's conf with which S3A reaches the work root; empty if that is not on S3.

    Without keys in the connection S3A finds credentials by its own chain, as it is configured for the site.
    """
    root = split(config.work_uri)
    if root.scheme != "s3":
        return {}
    options = config.s3 or S3Options()
    values = {"endpoint.region": options.region, "path.style.access": str(options.path_style).lower()}
    if options.endpoint_url is not None:
        values["endpoint"] = options.endpoint_url
    if options.access_key is not None and options.secret_key is not None:
        values["aws.credentials.provider"] = SIMPLE_CREDENTIALS
        values["access.key"] = options.access_key.get_secret_value()
        values["secret.key"] = options.secret_key.get_secret_value()
    return {f"spark.hadoop.fs.s3a.bucket.{root.authority}.{key}": value for key, value in values.items()}
