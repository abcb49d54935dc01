"""Checkpoints that are kept: payloads, pointers, what is no longer needed, and its removal."""
