"""The file system behind the component: its conf, and whether this JVM can use it; checked before any change.

S3A is no part of Spark: its jars come with the job, or were added to the Spark of the site. And only later releases of
it can create an object conditionally.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import quote

from airflow_provider_ha.driver.jvm.release import check_driver
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.jobs.options.component_conf import refuse_owned
from airflow_provider_ha.uris import split


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
