"""Verification of a checkpoint directory: whether Spark can start from it, and its restorable batches."""
