"""Hosts of drivers: engines, the supervisor, the child process of a proof, local processes. PySpark only in proof."""
