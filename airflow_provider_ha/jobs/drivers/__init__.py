"""Drivers of a job: directory, parameters, host and log."""
