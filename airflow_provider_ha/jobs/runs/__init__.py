"""Runs of a job: submissions, journal, and claims on outputs and tasks."""
