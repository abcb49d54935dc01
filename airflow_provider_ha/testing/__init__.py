"""Tools for users' tests of their DAGs and jobs: an embedded ZooKeeper, a proxy that cuts, waiting."""
