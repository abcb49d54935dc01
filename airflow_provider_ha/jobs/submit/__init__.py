"""Submission of a run: a new one, one after a loss, or one in place of a lost run."""
