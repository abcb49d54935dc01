"""Rebuild of a cluster's tree from storage after a loss of ZooKeeper's data: evidence, plan, apply."""
