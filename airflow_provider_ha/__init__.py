"""High availability for Spark Structured Streaming jobs, driven by Airflow.

Importing this package is cheap on purpose: every DAG file that uses an operator imports it while Airflow parses.
"""

from airflow_provider_ha._version import __version__


__all__ = ["__version__"]
