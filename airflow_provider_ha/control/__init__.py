"""The control plane: what Airflow, the command line and other processes do with jobs."""
