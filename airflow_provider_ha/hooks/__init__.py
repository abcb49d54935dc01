"""Airflow's hook for the connection type ``spark_ha``."""
