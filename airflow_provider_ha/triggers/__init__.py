"""Airflow triggers. All of one triggerer share one ZooKeeper session per connection through ``triggers/_hub.py``."""
