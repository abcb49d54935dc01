"""Checkpoints and savepoints that are kept: their payloads, pointers and retention."""
