"""S3A and the parts of the AWS SDK that it uses, without what Spark brings along in other releases."""

from __future__ import annotations

from pathlib import Path

from tests.support.ivy import Wanted, jars


_SDK = "2.35.4"  # what Hadoop 3.5.0 was built with
# Of the SDK's own netty-nio-client, which uploads with it, Spark has nothing.
_NETTY = ("buffer", "codec", "common", "handler", "resolver", "transport")
_OF_SPARK = (*(f"netty-{part}" for part in _NETTY), "slf4j", "commons-logging", "commons-codec", "wildfly")


def s3a_jars(hadoop: str = "3.5.0") -> tuple[Path, ...]:
    """Return the jars; skips the test where they cannot be had.

    :param hadoop: Release of Hadoop that is among the jars of pyspark.
    """
    parts = ("s3", "s3-transfer-manager", "apache-client")
    wanted = (
        Wanted("org.apache.hadoop", "hadoop-aws", hadoop, transitive=False),
        Wanted("software.amazon.s3.analyticsaccelerator", "analyticsaccelerator-s3", "1.3.1", transitive=False),
        *(Wanted("software.amazon.awssdk", part, _SDK) for part in parts),
    )
    return jars(f"s3a-{hadoop}", wanted, without=_OF_SPARK)
