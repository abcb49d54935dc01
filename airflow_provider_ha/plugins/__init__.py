"""What Airflow's own pages show of the jobs: the plugin "Spark HA", for Airflow 3.1 and later."""
