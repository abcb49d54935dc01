"""Verification of a job's checkpoints and savepoints, up to a start of Spark on a copy."""
