"""The ``spark-ha`` command, and the same verbs under ``airflow ha``."""
