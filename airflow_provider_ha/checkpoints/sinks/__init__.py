"""Sinks as seen by a restore: their records of batches, and the effect of repeated batches."""
