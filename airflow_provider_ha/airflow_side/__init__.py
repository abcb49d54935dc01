"""This package in Airflow: the page "Spark HA", task links, notifications, lineage and metrics."""
