"""Submitting jobs: one adapter per engine, and the one object that Airflow and the command line open."""
