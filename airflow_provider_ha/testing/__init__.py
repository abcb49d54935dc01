"""Tools for users' tests of DAGs and jobs: an embedded ZooKeeper, a fault-injecting proxy, and waiting."""
