"""A script with one job of Spark and no query: enough to see what Spark logs."""

from pyspark.sql import SparkSession


SparkSession.builder.appName("one job").getOrCreate().range(1).collect()
raise SystemExit(1)
