"""Verifying what a job could be restored from, up to a start of Spark on a copy."""
