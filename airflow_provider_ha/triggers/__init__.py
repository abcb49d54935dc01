"""Airflow triggers. Those of one triggerer share one ZooKeeper session per connection (``triggers/_hub.py``)."""
