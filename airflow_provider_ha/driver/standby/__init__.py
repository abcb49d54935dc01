"""Standby drivers: processes that start Spark before they lead, and take a lost job over within seconds."""
