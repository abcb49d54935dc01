"""Restoring a job: choose, lease, plan, refuse or go on; or only show what that would do."""
