"""A Spark that Iceberg is built for, and Iceberg's jar: there is none for the release of Spark that the tests have."""

from __future__ import annotations

from pathlib import Path

from tests.support.ivy import Wanted, jars
from tests.support.releases.installed import BY_VERSION, packages


SPARK = "4.1.4"
ICEBERG = "1.12.0"
CATALOG = "lake"
"""Name of the catalog in :func:`conf`."""


def spark_home() -> Path:
    """Return Spark's directory; skips the test where it cannot be had."""
    installed = packages(BY_VERSION[SPARK])
    assert installed is not None, "another release is installed for the tests"
    return installed / "pyspark"


def conf(warehouse: str) -> dict[str, str]:
    """Return the conf of a session with a Hadoop catalog; skips the test where the jar cannot be had.

    :param warehouse: Directory of its tables.
    """
    runtime = Wanted("org.apache.iceberg", "iceberg-spark-runtime-4.1_2.13", ICEBERG, transitive=False)
    return {
        "spark.jars": ",".join(map(str, jars(f"iceberg-{ICEBERG}", (runtime,)))),
        f"spark.sql.catalog.{CATALOG}": "org.apache.iceberg.spark.SparkCatalog",
        f"spark.sql.catalog.{CATALOG}.type": "hadoop",
        f"spark.sql.catalog.{CATALOG}.warehouse": warehouse,
    }
