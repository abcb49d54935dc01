"""Jobs in Airflow's own pages: the plugin "Spark HA", for Airflow 3.1 and later."""
