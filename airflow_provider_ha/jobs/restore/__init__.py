"""Restore of a job: choose, lease, plan, refuse or continue, or a dry run."""
