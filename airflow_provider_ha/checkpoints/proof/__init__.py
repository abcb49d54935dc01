"""Proof of a batch: Spark itself loads its state from a copy, and starts the query on it without a sink.

The parts without Spark are here: the copy, the list of reads, and the interpretation of the output of Spark's child.
"""
