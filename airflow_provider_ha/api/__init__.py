"""Public Python API: clients of a cluster and of a job."""
