"""Messages for people about events of jobs, sent by Airflow's notifiers."""
