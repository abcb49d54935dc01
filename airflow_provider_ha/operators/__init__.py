"""Airflow operators: submit, savepoint, stop, cancel, select a checkpoint, restore."""
