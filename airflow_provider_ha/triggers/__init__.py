"""Airflow triggers; all triggers of a triggerer share a ZooKeeper session per connection (``triggers/_hub.py``)."""
