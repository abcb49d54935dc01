"""The page "Spark HA": jobs in Airflow's own pages, for Airflow 3.1 and later."""
