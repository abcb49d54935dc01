"""The environment by which ``spark-ha`` reaches a cluster."""

from __future__ import annotations

from airflow_provider_ha.config import ENVIRONMENT, HaConfig


_FIELDS = ("zookeeper", "storage_root", "work_root", "home_root", "cluster_id")


def variables_of(config: HaConfig) -> dict[str, str]:
    """Return the variables; those of S3 are boto3's."""
    found = {ENVIRONMENT[name]: str(getattr(config, name)) for name in _FIELDS if getattr(config, name)}
    if config.hdfs is not None:
        found["SPARK_HA_HDFS_NAMENODES"] = ",".join(config.hdfs.namenodes)
    if config.s3 is None or config.s3.access_key is None or config.s3.secret_key is None:
        return found
    return found | {
        "AWS_ENDPOINT_URL_S3": config.s3.endpoint_url or "",
        "AWS_ACCESS_KEY_ID": config.s3.access_key.get_secret_value(),
        "AWS_SECRET_ACCESS_KEY": config.s3.secret_key.get_secret_value(),
    }
