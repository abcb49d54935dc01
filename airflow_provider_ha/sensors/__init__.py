"""Airflow sensors for leader, job status and checkpoint; every sensor waits by deferring."""
