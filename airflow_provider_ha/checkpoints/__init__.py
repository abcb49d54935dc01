"""Spark checkpoint directories: read, verify, fork, pin, savepoint, restore. Pure Python."""
