"""Shipped for users who test their own DAGs and jobs: embedded ZooKeepers, proxies that cut, waiting.

One server (``zookeeper``), or an ensemble whose members can be cut off from each other (``ensemble``).
"""
