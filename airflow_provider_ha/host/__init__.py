"""Hosts of drivers: engines, the supervisor, the child of a proof, local processes. PySpark only in proof."""
