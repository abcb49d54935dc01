"""Airflow operators, one per action on a job, a checkpoint or a cluster."""
