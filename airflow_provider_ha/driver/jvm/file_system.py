"""Hadoop's file system of the work root: conf, check before any change, and preparation in advance.

S3A is no part of Spark: its jars come with the job, or were added to the Spark of the site. And only later releases of
it can create an object conditionally.

Other reads and writes of a script keep the conf of its user, with other endpoints and other keys. The conf holds
secrets: the driver sets it in its JVM, and Spark's own RPC brings it to the executors. It is on no disk.

It does not touch the job. Done under the lock, while the job is down, importing pyspark and reaching the JVM took more
than half a second of every recovery.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import quote

from airflow_provider_ha.config import HaConfig, S3Options
from airflow_provider_ha.driver.jvm.component import check_driver
from airflow_provider_ha.driver.spark_conf import gateway
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.jobs.options.conf import needs_component, refuse_owned
from airflow_provider_ha.uris import hadoop_uri, split


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


S3A_NEEDS = (3, 4, 2)  # HADOOP-19256: conditional create
_RELEASE = re.compile(r"(\d+)\.(\d+)\.(\d+)")


def check_names(jvm: Callable[[], Any], roots: Iterable[str]) -> None:
    """Refuse a JVM that would replace characters in the name of a root, and work in another directory.

    :param jvm: Returns it; called for names that not every locale can encode.
    :raises ConfigurationError: Its locale cannot encode them all.
    """
    for root in (root for root in roots if not root.isascii()):
        path = jvm().java.io.File(root)
        try:
            path.toPath()
        except Exception as error:  # an error of py4j: InvalidPathException
            raise ConfigurationError(
                f"the driver's JVM cannot name {root!r}: its locale is without UTF-8",
                next_step="Set LC_ALL to C.UTF-8 in the environment of the job",
            ) from error


def prepare_file_system(jvm: Any, root: str, conf: Mapping[str, str], site: Mapping[str, str]) -> None:
    """Set the conf that reaches the storage root, and check that this JVM has a file system for it. Contacts no server.

    :param root: Storage root with Hadoop's scheme.
    :param conf: The user's conf.
    :param site: The connection's settings for the root. Properties already set in the JVM are the user's, and stay.
    :raises ApplicationRefusedError: The conf sets reserved keys.
    :raises ConfigurationError: The JVM lacks the component or the file system; another host's JVM may have it.
    """
    refuse_owned(conf)
    check_driver(jvm)
    _check_hadoop(jvm, root)
    try:
        warm_up(jvm, root, site)
    except Exception as error:  # an error of py4j, with Java's exception
        hadoop = str(jvm.org.apache.hadoop.util.VersionInfo.getVersion())
        raise ConfigurationError(
            f"the driver's JVM cannot open {root}: {_reason(error)}",
            next_step=f"Give the job packages=['org.apache.hadoop:hadoop-aws:{hadoop}'], or put S3A of Hadoop {hadoop} "
            "into Spark's directory of jars, and check its conf (spark.hadoop.fs.s3a.*)",
        ) from error


def warm_up(jvm: Any, root: str, site: Mapping[str, str]) -> None:
    """Set the conf of the storage root, make a file system for it and close it: this loads its classes.

    A file system in Hadoop's cache would keep this conf, which precedes the script's. Raises Java's exception.
    """
    system = jvm.java.lang.System
    for key, value in site.items():
        if system.getProperty(key) is None:
            system.setProperty(key, value)
    conf = jvm.org.apache.spark.deploy.SparkHadoopUtil.get().newConfiguration(jvm.org.apache.spark.SparkConf())
    jvm.org.apache.hadoop.fs.FileSystem.newInstance(jvm.java.net.URI(quote(root, safe=":/@")), conf).close()


def _check_hadoop(jvm: Any, root: str) -> None:
    found = str(jvm.org.apache.hadoop.util.VersionInfo.getVersion())
    match = _RELEASE.match(found)
    release = tuple(map(int, match.groups())) if match else S3A_NEEDS
    if split(root).scheme == "s3a" and release < S3A_NEEDS:
        raise ConfigurationError(
            f"this Spark has Hadoop {found}, whose S3A cannot create an object on condition: two drivers could both "
            "believe that they have committed a batch",
            next_step="Use Spark 4.1 or newer, or a work root on a mounted file system",
        )


def _reason(error: Exception) -> str:
    """Return Java's message, without its stack."""
    thrown = getattr(error, "java_exception", None)
    return str(thrown.toString() if thrown is not None else error)[:500]


log = logging.getLogger(__name__)


def preload(config: HaConfig) -> None:
    """Start in another thread, and return immediately.

    A thread that imports the same modules waits on Python's import locks. A failure here recurs where the resource is
    needed, and is reported there.
    """
    threading.Thread(target=_preload, args=(config,), name="ha-preload", daemon=True).start()


def _preload(config: HaConfig) -> None:
    try:
        import pyspark.sql  # pyspark is imported inside functions
        import pyspark.sql.streaming.query  # the same
        import pyspark.sql.streaming.readwriter  # noqa: F401  # the same

        if "PYSPARK_GATEWAY_PORT" in os.environ:  # else pyspark would start another JVM
            jvm = gateway()
            if needs_component(config):  # S3A takes a second to be loaded
                warm_up(jvm, hadoop_uri(config.work_uri), s3a_conf(config))
    except Exception as error:  # noqa: BLE001  # reported where it is needed
        log.info("pyspark is not ready yet: %s", error)
