"""Shipped for users who test their own DAGs and jobs: an embedded ZooKeeper, a TCP proxy that cuts, waiting."""
