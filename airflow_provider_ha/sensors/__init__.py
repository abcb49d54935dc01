"""Airflow sensors: leader, job status, checkpoint. All of them wait by deferring."""
