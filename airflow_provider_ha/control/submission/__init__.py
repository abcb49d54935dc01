"""Submitting a run, again after a loss, or instead of a run that was lost."""
