"""Checkpoints of a run: the start from one, publication, savepoints, and removal of old ones."""
