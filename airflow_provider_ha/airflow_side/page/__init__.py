"""Page "Spark HA" with the jobs in Airflow's own UI, for Airflow 3.1 and later."""
