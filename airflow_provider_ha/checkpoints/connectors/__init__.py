"""Sinks and sources as seen by a restore: file sink logs, Delta, Kafka, input files."""
