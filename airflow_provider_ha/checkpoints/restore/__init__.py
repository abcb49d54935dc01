"""Restore: selection of a checkpoint, plan of the effects, preparation and start."""
