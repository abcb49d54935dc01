"""Proving a batch: Spark itself loads its state from a copy, and starts the query on it with no sink.

What needs no Spark is here: the copy, what is to be read, and what the answers of the child that runs Spark mean.
"""
